/**
 * Every device sends one small message to every other one, over UD or DC, on virtual time: how large a fabric this machine can simulate, and how
 * fast. Each message is checked to arrive once.
 *
 *     memory stays small because messages are posted in waves: wave k is the message to the k-th neighbour, and a device posts its next one
 *     when a few are left in its queue
 */

import { WorkCompletions } from '../../work-completions.js';
import { SimFabric } from './fabric.js';

const QKEY = 0x11111111;
const DC_KEY = 7;
const MESSAGE_BYTES = 64;
/** The route header of a datagram takes 40 bytes of a receive buffer. */
const RECEIVE_BYTES = 256;
const SEND_DEPTH = 16;
/** Receives of a device, and completions that a look takes at most. */
const DEPTH = 64;
/** Events between two looks at the completion queues: fewer than would fill the receive queues. */
const STRIDE_PER_DEVICE = 8;

export interface AllToAllResult {
  readonly type: 'UD' | 'DC';
  readonly devices: number;
  readonly messages: number;
  readonly packets: number;
  readonly events: number;
  /** Virtual time, nanoseconds. */
  readonly virtualNs: number;
  readonly traceHash: string;
}

/** Plays it. Throws when a message is lost, arrives twice or fails. */
export function playAllToAll(type: 'UD' | 'DC', devices: number): AllToAllResult {
  const fabric = new SimFabric({ clock: 'virtual', mtu: 256 });
  const wcs = new WorkCompletions(DEPTH);
  const nodes = Array.from({ length: devices }, () => {
    const device = fabric.open();
    const pd = device.allocPd();
    const cq = device.createCq({ depth: 2 * DEPTH });
    const memory = pd.register(device.alloc(MESSAGE_BYTES + RECEIVE_BYTES), { localWrite: true });
    const base = { sendCq: cq, recvCq: cq, maxInline: 0, maxSendSge: 1, maxRecvSge: 1 };
    const srq = pd.createSrq({ maxWr: DEPTH, maxSge: 1 });
    const sender = pd.createQp({ ...base, type: type === 'UD' ? 'UD' : 'DCI', maxSendWr: SEND_DEPTH });
    const target =
      type === 'UD' ? pd.createQp({ ...base, type: 'UD', srq }) : pd.createQp({ ...base, type: 'DCT', srq, dcKey: DC_KEY });
    for (const qp of [sender, target]) void qp.connect();
    const landing = memory.slice(MESSAGE_BYTES, RECEIVE_BYTES);
    for (let i = 0; i < DEPTH; i++) srq.postRecv({ sgl: [landing] });
    const payload = memory.slice(0, MESSAGE_BYTES);
    return {
      device,
      pd,
      cq,
      srq,
      sender,
      target,
      landing,
      payload,
      next: 1,
      pending: 0,
      received: 0,
      seen: new Uint8Array(devices),
    };
  });
  const post = (i: number): void => {
    const node = nodes[i];
    while (node.next < devices && node.pending < SEND_DEPTH) {
      const at = (i + node.next++) % devices;
      const ah = node.pd.createAh({ gid: nodes[at].device.gid });
      const to = { ah, remoteQpn: nodes[at].target.qpNum, remoteQkey: QKEY, dcKey: DC_KEY };
      node.sender.postSend({ opcode: 'SEND_WITH_IMM', imm: i, sgl: [node.payload], ...to });
      node.pending++;
    }
  };
  const drain = (): boolean => {
    let isDone = true;
    for (const [i, node] of nodes.entries()) {
      for (let n = node.cq.poll(wcs); n > 0; n = node.cq.poll(wcs)) {
        for (let k = 0; k < n; k++) {
          if (wcs.status[k] !== 0) throw new Error(`device ${i}: a request ended with status ${wcs.status[k]}`);
          if ((wcs.flags[k] & 1) === 0) {
            node.pending--;
            continue;
          }
          if (node.seen[wcs.imm[k]]++ > 0) throw new Error(`device ${i} got the message of ${wcs.imm[k]} twice`);
          node.received++;
          node.srq.postRecv({ sgl: [node.landing] });
        }
      }
      post(i);
      if (node.received < devices - 1) isDone = false;
    }
    return isDone;
  };
  while (!drain()) {
    const before = fabric.counters().events;
    for (let i = 0; i < STRIDE_PER_DEVICE * devices; i++) fabric.step();
    if (fabric.counters().events === before) {
      const missing = nodes.reduce((sum, node) => sum + devices - 1 - node.received, 0);
      throw new Error(`${missing} messages were lost, and nothing is left to happen`);
    }
  }
  const { packets, events } = fabric.counters();
  const messages = devices * (devices - 1);
  return { type, devices, messages, packets, events, virtualNs: fabric.nowNs, traceHash: fabric.traceHash };
}
