/** A process of another user that tries to reach a device: by address, by address handle, by name. */

import { VerbsError } from '../../../src/verbs/errors.js';
import type { RemoteRegion } from '../../../src/verbs/index.js';
import { openDevice } from '../../../src/verbs/open-device.js';
import { Link, type Offer } from '../link.js';
import { say, scenario } from '../scenario.js';

const outcome = async (attempt: () => unknown): Promise<string> => {
  try {
    await attempt();
    return 'succeeded';
  } catch (error) {
    return VerbsError.is(error) ? error.code : String(error);
  }
};

scenario<{ name: string; offer: Offer }>(async ({ name, offer }) => {
  const device = await openDevice('shm');
  const link = new Link(device, device.alloc(4096));
  const remote: RemoteRegion = offer.remote;
  say('tried', {
    uid: process.getuid?.(),
    handle: await outcome(() => link.pd.createAh(offer.address.av)),
    direct: await outcome(() => device.directAccess(offer.address, remote)),
    named: await outcome(() => device.connect(name, link.makeQp(), { timeoutMs: 2000 })),
    address: await outcome(async () => {
      await link.join(offer, { timeout: 8, retryCnt: 1 });
      link.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [link.region.slice(0, 8)], remoteAddr: remote.addr, rkey: remote.rkey });
      link.next();
    }),
  });
  link.close();
});
