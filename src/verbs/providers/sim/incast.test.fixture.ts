/**
 * Many devices WRITE to one at the same moment, through one port of a switch: what congestion does to them, and what marks (ECN) change about it.
 */

import { STATUS } from '../../status.js';
import { WorkCompletions } from '../../work-completions.js';
import { SimFabric } from './fabric.js';

const MTU = 1024;
const BITS_PER_SECOND = 10e9;

export interface IncastResult {
  readonly senders: number;
  /** Virtual time until the last one was done, nanoseconds, and what the port alone would have taken. */
  readonly elapsedNs: number;
  readonly leastNs: number;
  /** Packets that the full queue dropped, and all that were sent. */
  readonly drops: number;
  readonly packets: number;
  /** WRITEs that failed. */
  readonly failed: number;
}

/** @param link bytes that the port queues, and from which on it marks packets (default: never). */
export function playIncast(senders: number, bytes: number, link: { queueBytes: number; markBytes?: number }): IncastResult {
  const fabric = new SimFabric({
    clock: 'virtual',
    mtu: MTU,
    link: { bitsPerSecond: BITS_PER_SECOND, latencyNs: 1000, ...link },
  });
  const target = fabric.open();
  const pd = target.allocPd();
  const cq = target.createCq();
  const region = pd.register(target.alloc(bytes), { remoteWrite: true });
  const queues = Array.from({ length: senders }, () => {
    const device = fabric.open();
    const own = device.allocPd();
    const sendCq = device.createCq();
    const memory = own.register(device.alloc(bytes));
    const qp = own.createQp({ type: 'RC', sendCq, recvCq: sendCq });
    const other = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
    void qp.connect(other.address(), { timeout: 10 });
    void other.connect(qp.address());
    qp.postSend({ opcode: 'RDMA_WRITE', sgl: [memory.slice()], remoteAddr: region.addr, rkey: region.rkey });
    return sendCq;
  });
  let done = 0;
  fabric.run(() => {
    while (done < senders && queues[done].isReady()) done++;
    return done === senders;
  });
  const wcs = new WorkCompletions(1);
  const failed = queues.filter((queue) => queue.poll(wcs) === 1 && wcs.status[0] !== STATUS.SUCCESS).length;
  const { queueDrops: drops, packets } = fabric.counters();
  return { senders, elapsedNs: fabric.nowNs, leastNs: (senders * bytes * 8e9) / BITS_PER_SECOND, drops, packets, failed };
}
