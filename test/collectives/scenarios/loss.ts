/**
 * Rank 1 kills itself in the middle of a collective; the others hear it, shrink, and go on. In the environment: which collective (VERBENA_TEST_CALL), over which device
 * (VERBENA_TEST_DEVICE; default: on shared memory), and whether rank 2 dies too (VERBENA_TEST_SECOND): 'before' it calls shrink, or 'during'.
 */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Communicator, RankLost } from '../../../src/collectives/index.js';
import { openContext } from '../../../src/messaging/index.js';
import { asRank, say } from '../rank.js';

asRank(async ({ rank, size, exchange, directory }) => {
  const { VERBENA_TEST_CALL: which, VERBENA_TEST_DEVICE: device, VERBENA_TEST_SECOND: second } = process.env;
  const context = device === undefined ? undefined : await openContext({ device });
  const worker = await context?.createWorker();
  const world = await Communicator.create({ rank, size, exchange, worker });
  const data = new Float64Array(60_000).fill(1);
  const mark = join(directory, 'killed-at');
  const die = () => {
    writeFileSync(mark, String(Date.now()));
    process.kill(process.pid, 'SIGKILL');
  };
  for (let i = 0; i < 5; i++) world.allreduceSync(Float64Array.of(1));
  const begin = (): Promise<void> | void => {
    if (which === 'allreduce') return world.allreduce(data);
    if (which === 'barrier') return world.barrier();
    if (which === 'broadcast') return world.broadcast(data, 0);
    world.allreduceSync(Float64Array.of(1));
  };
  if (rank === 1) {
    // Some of the work begins, so that the death falls into it.
    if (which === 'allreduce' || which === 'broadcast') setTimeout(die, 5);
    else die();
    for (;;) await begin();
  }
  let lost: unknown;
  try {
    for (;;) await begin();
  } catch (error) {
    lost = error;
  }
  const noticedMs = Date.now() - Number(readFileSync(mark, 'utf8'));
  assert.ok(lost instanceof RankLost, String((lost as Error).stack));
  assert.equal(lost.rank, 1);
  await assert.rejects(world.barrier(), { code: 'COLL_PEER_LOST' });
  assert.ok(world.broken !== undefined);
  const dying = second !== undefined && rank === 2;
  if (dying && second === 'before') process.kill(process.pid, 'SIGKILL');
  if (dying) setTimeout(() => process.kill(process.pid, 'SIGKILL'), 3);
  const smaller = await world.shrink();
  if (dying) for (;;) await smaller.barrier();
  const dead = second === undefined ? [1] : [1, 2];
  const final = await settle(smaller, size - dead.length);
  const living = Array.from({ length: size }, (_, r) => r).filter((r) => !dead.includes(r));
  assert.equal(final.size, living.length);
  const sum = Float64Array.of(rank);
  await final.allreduce(sum);
  assert.equal(
    sum[0],
    living.reduce((a, b) => a + b),
  );
  await final.barrier();
  final.close();
  await context?.close();
  say({ lastCompleted: smaller.lastCompleted, noticedMs });
});

/** The second death may fall behind the first shrink: then there is another. */
async function settle(comm: Communicator, size: number): Promise<Communicator> {
  let current = comm;
  while (current.size > size) {
    await assert.rejects(async () => {
      for (;;) await current.barrier();
    }, RankLost);
    current = await current.shrink();
  }
  return current;
}
