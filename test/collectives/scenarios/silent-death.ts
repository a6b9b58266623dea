/** Rank 0 waits on its thread, with nothing under way that a network could miss, for a rank that dies. */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Communicator } from '../../../src/collectives/index.js';
import { openContext } from '../../../src/messaging/index.js';
import { asRank, say } from '../rank.js';

asRank(async ({ rank, size, exchange }) => {
  const context = await openContext({ device: process.env['DEVICE'] as string });
  const worker = await context.createWorker({ keepaliveMs: 1000 });
  const comm = await Communicator.create({ rank, size, exchange, worker });
  await comm.barrier();
  say({ what: 'met' });
  if (rank === 1) await sleep(600_000);
  assert.throws(() => comm.allreduceSync(Float64Array.of(1)), { code: 'COLL_PEER_LOST' });
  say({ what: 'told' });
  comm.close();
  await context.close();
});
