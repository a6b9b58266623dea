/** Writes into the memory of a peer as fast as it can until a request fails, then says what failed; again for every new region. */

import type { RemoteRegion } from '../../../src/verbs/index.js';
import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ length: number; fill: number; rounds: number }>(async ({ length, fill, rounds }) => {
  const link = await Link.open(length);
  link.region.bytes.fill(fill);
  say('offer', link.offer());
  const peer = await hear<Offer>('offer');
  for (let round = 0; round < rounds; round++) {
    await link.join(peer);
    const { remote } = await hear<{ remote: RemoteRegion }>('region');
    const write = link.qp.prepare({ opcode: 'RDMA_WRITE', local: link.region, remote });
    let id = 0;
    let outstanding = 0;
    let failed: string | undefined;
    say('writing');
    while (failed === undefined) {
      while (outstanding < 4) {
        write.post(0, length, id++);
        outstanding++;
      }
      const n = link.cq.poll(link.wcs);
      for (let i = 0; i < n && failed === undefined; i++) if (link.wcs.status[i] !== 0) failed = link.wcs.at(i).status;
      outstanding -= n;
    }
    while (outstanding > 0) outstanding -= link.cq.poll(link.wcs);
    say('stopped', { failed, writes: id });
  }
  await hear('end');
  link.close();
});
