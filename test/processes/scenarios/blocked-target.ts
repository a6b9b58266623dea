/**
 * A target whose JavaScript thread is blocked: it stays in a synchronous loop until a peer has written the release word by RDMA. No other way
 * leads out of the loop, so whatever the peer completed before was completed without this thread.
 */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

/** Word 0: released by the peer. Word 1: counter of atomics. Word 2: compare-and-swap. From byte 64 on: data. */
scenario<{ memory: 'arena' | 'private' }>(async ({ memory }) => {
  const arena = await Link.open(1 << 21);
  const link =
    memory === 'arena'
      ? arena
      : new Link(arena.device, new ArrayBuffer(1 << 21), {}, {}, { localWrite: true, remoteRead: true, remoteWrite: true });
  link.region.bytes.fill(7, 64);
  say('offer', link.offer());
  await link.join(await hear<Offer>('offer'));
  await hear('block');
  const words = link.words;
  say('blocked');
  const deadline = Date.now() + 20_000;
  while (Atomics.load(words, 0) === 0n) {
    if (Date.now() > deadline) throw new Error('nobody released this thread');
  }
  say('released', { counter: String(words[1]), swapped: String(words[2]), data: [...link.region.bytes.subarray(64, 80)] });
  await hear('end');
  link.close();
});
