/**
 * What the provider takes for granted of the engine: plain loads of typed arrays are neither merged nor moved across Atomics.load, and plain
 * stores are visible behind an Atomics.store, also between processes.
 */

import assert from 'node:assert/strict';
import { processTest } from './harness.js';
import { Link, type Offer } from './link.js';
import { sendPings } from './plain-memory.js';

processTest('plain words behind an Atomics number are those of the number, in two processes, in compiled code', async (hand) => {
  const rounds = 150_000;
  const ponger = hand.process('ponger', { rounds });
  const link = await Link.open(4096);
  const offer = await ponger.hear<Offer>('offer');
  await link.join(offer);
  ponger.say({ type: 'offer', ...link.offer() });
  await ponger.hear('ready');
  if (!link.device.capabilities.directAccess) throw new Error('the shm provider gives direct access');
  const stale = sendPings(link.device.directAccess(offer.address, offer.remote), rounds);
  assert.equal(stale, 0, 'stale words seen here');
  assert.deepEqual(await ponger.hear('done'), { type: 'done', stale: 0 });
  ponger.say({ type: 'end' });
  await ponger.exited;
  link.close();
});
