/** Sends every message back, until an empty one. For processes and worker threads. */

import { Link, type Offer } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

const SLOT = 4096;
const SLOTS = 32;

scenario(async () => {
  const link = await Link.open(SLOTS * SLOT, {}, { mode: 'event' });
  say('offer', link.offer());
  const peer = await hear<Offer>('offer');
  await link.join(peer);
  const recv = link.qp.prepareRecv(link.region);
  for (let slot = 0; slot < SLOTS; slot++) recv.post(slot * SLOT, SLOT, slot);
  say('ready');
  const send = link.qp.prepare({ opcode: 'SEND', local: link.region });
  let echoed = 0;
  for await (const completion of link.cq) {
    if (completion.status !== 'SUCCESS') throw new Error(`${completion.status}: ${completion.cause?.words}`);
    if (completion.opcode === 'SEND') {
      recv.post(completion.id * SLOT, SLOT, completion.id);
      continue;
    }
    if (completion.byteLen === 0) break;
    send.post(completion.id * SLOT, completion.byteLen, completion.id);
    echoed++;
  }
  say('echoed', { echoed });
  await hear('end');
  link.close();
});
