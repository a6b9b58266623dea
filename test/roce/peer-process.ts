/** The other half of peer.ts. Word 0: release. Word 1: counter. Word 2: compare-and-swap. From byte 64 on: data. */

import { once } from 'node:events';
import type { Access } from '../../src/verbs/index.js';
import { openDevice } from '../../src/verbs/open-device.js';
import type { Offer } from './peer.js';

const BYTES = 2 << 20;
const RIGHTS: Access = { localWrite: true, remoteRead: true, remoteWrite: true };

const [, , name, kind] = process.argv;
const device = await openDevice(name);
const pd = device.allocPd();
const cq = device.createCq();
const region =
  kind === 'arena'
    ? pd.register(device.alloc(BYTES), { ...RIGHTS, remoteAtomic: true })
    : pd.register(new ArrayBuffer(BYTES), RIGHTS);
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const words = new BigInt64Array(region.bytes.buffer, region.bytes.byteOffset, BYTES / 8);
const say = (message: unknown) => process.send?.(message);

say({ address: qp.address(), remote: region.remote() });
const [theirs] = (await once(process, 'message')) as [Offer];
await qp.connect(theirs.address);
say('joined');
await once(process, 'message');
// Nothing but a peer's WRITE leads out of this loop: whatever it completed before was completed without this thread.
process.send?.('blocked', () => {
  const deadline = performance.now() + 60_000;
  while (Atomics.load(words, 0) === 0n) {
    if (performance.now() > deadline) throw new Error('nobody released this thread');
  }
  const sum = region.bytes.subarray(64).reduce((total, byte) => total + byte, 0);
  say({ counter: String(words[1]), swapped: String(words[2]), sum });
});
await once(process, 'disconnect');
device.close();
