/** Rank 1 kills itself in the middle of a collective; the others hear it, shrink, and go on. Which collective is in VERBENA_TEST_CALL. */

import assert from 'node:assert/strict';
import { Communicator, RankLost } from '../../../src/collectives/index.js';
import { asRank, say } from '../rank.js';

asRank(async ({ rank, size, exchange }) => {
  const which = process.env['VERBENA_TEST_CALL'];
  const world = await Communicator.create({ rank, size, exchange });
  const data = new Float64Array(60_000).fill(1);
  for (let i = 0; i < 5; i++) world.allreduceSync(Float64Array.of(1));
  const begin = (): Promise<void> | void => {
    if (which === 'allreduce') return world.allreduce(data);
    if (which === 'barrier') return world.barrier();
    if (which === 'broadcast') return world.broadcast(data, 0);
    world.allreduceSync(Float64Array.of(1));
  };
  if (rank === 1) {
    // Some of the work begins, so that the death falls into it.
    if (which === 'allreduce' || which === 'broadcast') setTimeout(() => process.kill(process.pid, 'SIGKILL'), 5);
    else process.kill(process.pid, 'SIGKILL');
    for (;;) await begin();
  }
  let lost: unknown;
  let before = performance.now();
  try {
    for (;;) {
      before = performance.now();
      await begin();
    }
  } catch (error) {
    lost = error;
  }
  assert.ok(lost instanceof RankLost, String(lost));
  assert.equal(lost.rank, 1);
  assert.ok(performance.now() - before < 5000, 'the loss was noticed late');
  await assert.rejects(world.barrier(), { code: 'COLL_PEER_LOST' });
  const smaller = await world.shrink();
  assert.deepEqual(
    smaller.members,
    Array.from({ length: size }, (_, r) => r).filter((r) => r !== 1),
  );
  const sum = Float64Array.of(rank);
  await smaller.allreduce(sum);
  assert.equal(sum[0], (size * (size - 1)) / 2 - 1);
  await smaller.barrier();
  smaller.close();
  say({ lastCompleted: smaller.lastCompleted });
});
