/** The other process of the doctor's live test: offers arena memory and an ordinary ArrayBuffer, with a known text in both. */

import type { QpAddress, QueuePair, RemoteRegion } from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { serve } from '../bench/child-program.js';

export interface TargetOffer {
  readonly qp: QpAddress;
  readonly arena: RemoteRegion;
  /** Absent where the provider cannot register ordinary memory. */
  readonly ordinary?: RemoteRegion;
}

let qp: QueuePair;

serve({
  async offer({ provider, text }: { provider: string; text: string }): Promise<TargetOffer> {
    const device = await openDevice(provider, { name: 'verbena doctor, target' });
    const pd = device.allocPd();
    const cq = device.createCq();
    qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
    const bytes = new TextEncoder().encode(text);
    const offered = (memory: ArrayBuffer) => {
      const region = pd.register(memory, { remoteRead: true });
      region.bytes.set(bytes);
      return region.remote();
    };
    const ordinary = device.capabilities.privateMemory ? offered(new ArrayBuffer(bytes.length)) : undefined;
    return { qp: qp.address(), arena: offered(device.alloc(bytes.length)), ordinary };
  },
  connect: (peer: QpAddress) => qp.connect(peer),
});
