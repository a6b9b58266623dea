/** Rank 1 gives up making a communicator: while rank 2 is not there, and then at moments from the beginning to after the end. All get it, or nobody does. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { CollectiveError, Communicator } from '../../../src/collectives/index.js';
import { openContext } from '../../../src/messaging/index.js';
import { asRank, say } from '../rank.js';

const ROUNDS = 24;
/** The first rounds: the very first one takes longer. */
const UNDISTURBED = 2;
const reason = new Error('changed my mind');

asRank(async ({ rank, size, exchange }) => {
  const device = process.env['VERBENA_TEST_DEVICE'];
  const context = device === undefined ? undefined : await openContext({ device });
  const common = { rank, size, exchange, worker: await context?.createWorker() };

  const controller = new AbortController();
  if (rank === 2) await exchange.wait('the others have given up');
  const early = Communicator.create({ ...common, key: 'early', ...(rank === 1 ? { signal: controller.signal } : {}) });
  if (rank === 1) {
    early.catch(() => undefined);
    await exchange.wait('begun');
    controller.abort(reason);
    await assert.rejects(early, reason);
  } else {
    if (rank === 0) await exchange.set('begun', '1');
    await assert.rejects(early, { code: 'COLL_ABORTED', message: 'rank 1 gave up making the communicator' });
    await exchange.set('the others have given up', '1');
  }

  let creationMs = 10;
  let descriptors = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await exchange.barrier(`round ${round}`);
    const begin = performance.now();
    const giving = new AbortController();
    const timer = setTimeout(() => giving.abort(reason), (1.2 * creationMs * round) / ROUNDS);
    const signal = rank === 1 && round >= UNDISTURBED ? giving.signal : undefined;
    const made = await Communicator.create({ ...common, key: `round ${round}`, signal }).catch((error: Error) => error);
    clearTimeout(timer);
    const called = made instanceof Communicator ? await made.barrier().catch((error: Error) => error) : made;
    if (made instanceof Communicator) made.close();
    if (called === reason) assert.equal(rank, 1);
    else if (called !== undefined)
      assert.ok(called instanceof CollectiveError && /^COLL_(ABORTED|CLOSED)$/.test(called.code), String(called));
    say({ round, stands: called === undefined });
    if (round >= UNDISTURBED) continue;
    creationMs = performance.now() - begin;
    descriptors = readdirSync('/proc/self/fd').length;
  }
  await exchange.barrier('end');
  for (let look = 0; readdirSync('/proc/self/fd').length > descriptors && look < 500; look++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.ok(readdirSync('/proc/self/fd').length <= descriptors, 'descriptors are left');
  await context?.close();
});
