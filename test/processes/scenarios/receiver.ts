/** Receives a stream of messages of random sizes by polling and checks every byte at its completion. */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';
import { Stream } from '../stream.js';

scenario<{ seed: number; count: number }>(async ({ seed, count }) => {
  const link = await Link.open(Stream.MEMORY, { maxRecvWr: Stream.SLOTS }, { depth: 4096 });
  say('offer', link.offer());
  const offer = await hear<Offer>('offer');
  await link.join(offer);
  const recv = link.qp.prepareRecv(link.region);
  for (let slot = 0; slot < Stream.SLOTS; slot++) recv.post(slot * Stream.SLOT, Stream.SLOT, slot);
  say('ready');
  const stream = new Stream(seed);
  let received = 0;
  let bytes = 0;
  const deadline = performance.now() + 30_000;
  while (received < count) {
    const n = link.cq.poll(link.wcs);
    if (n === 0) link.patience.lose();
    else link.patience.win();
    if (n === 0 && performance.now() > deadline) throw new Error(`only ${received} messages came`);
    for (let i = 0; i < n; i++) {
      if (link.wcs.status[i] !== 0) throw new Error(link.cq.cause(link.wcs.causeId[i])?.words);
      const slot = link.wcs.id[i];
      const length = link.wcs.byteLen[i];
      const fault = stream.check(link.region.bytes, slot * Stream.SLOT, length, link.wcs.imm[i]);
      if (fault !== undefined) throw new Error(`message ${received}: ${fault}`);
      bytes += length;
      received++;
      recv.post(slot * Stream.SLOT, Stream.SLOT, slot);
    }
  }
  say('received', { received, bytes });
  await hear('end');
  link.close();
});
