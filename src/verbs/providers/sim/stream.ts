/**
 * Pairs of devices that WRITE to each other without end, on virtual time: how much the simulation carries per second of this machine.
 */

import { STATUS } from '../../status.js';
import { WorkCompletions } from '../../work-completions.js';
import { SimFabric } from './fabric.js';

const WINDOW = 32;
/** Events per device between two looks at the completion queues. */
const STRIDE = 100;

/** Plays WRITEs of `size` bytes between `devices` (an even number) until `isDone`, asked now and then, and returns the fabric. */
export function playStream(devices: number, size: number, isDone: () => boolean): SimFabric {
  const fabric = new SimFabric({ clock: 'virtual' });
  const wcs = new WorkCompletions(WINDOW);
  const senders = Array.from({ length: devices / 2 }, () => {
    const [from, to] = [0, 1].map(() => {
      const device = fabric.open();
      const pd = device.allocPd();
      const cq = device.createCq({ depth: WINDOW });
      const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq, maxSendWr: WINDOW, maxRecvWr: 1, maxInline: 0 });
      return { cq, qp, region: pd.register(device.alloc(size), { remoteWrite: true }) };
    });
    void from.qp.connect(to.qp.address());
    void to.qp.connect(from.qp.address());
    const write = from.qp.prepare({ opcode: 'RDMA_WRITE', local: from.region, remote: to.region.remote() });
    return { cq: from.cq, write, pending: 0 };
  });
  while (!isDone()) {
    for (const sender of senders) {
      const n = sender.cq.poll(wcs);
      for (let i = 0; i < n; i++) if (wcs.status[i] !== STATUS.SUCCESS) throw new Error(`a WRITE ended with ${wcs.status[i]}`);
      for (sender.pending -= n; sender.pending < WINDOW; sender.pending++) sender.write.post(0, size, 0);
    }
    for (let i = 0; i < STRIDE * devices; i++) fabric.step();
  }
  return fabric;
}
