/** Packets of send requests, as RC and UC make them from the send queue. */

import { Op, Service } from './opcode.js';
import type { Packet } from './packet.js';
import { packetBytes, sendOp, writeOp } from './segmentation.js';
import { SendFlag, type SendQueue } from './send-queue.js';

/** Positions in OPCODES of verbs, as the queue holds them. */
const SEND = 0;
const SEND_WITH_IMM = 1;
const RDMA_WRITE_WITH_IMM = 3;
export const RDMA_READ = 4;
const ATOMIC_CMP_AND_SWP = 5;

/** Packet `index` of the `packets` of a SEND or WRITE; its payload is the caller's to gather. */
export function fillData(
  p: Packet,
  q: SendQueue,
  slot: number,
  service: number,
  index: number,
  packets: number,
  mtu: number,
): void {
  const opcode = q.opcode[slot];
  const length = q.length[slot];
  p.opcode =
    service |
    (opcode <= SEND_WITH_IMM ? sendOp(index, packets, opcode !== SEND) : writeOp(index, packets, opcode === RDMA_WRITE_WITH_IMM));
  p.solicited = index === packets - 1 && (q.flags[slot] & SendFlag.solicited) !== 0;
  p.payloadLength = packetBytes(length, mtu, index);
  p.remoteAddress = q.remoteAddress[slot];
  p.remoteKey = q.remoteKey[slot];
  p.dmaLength = length;
  p.immediate = q.immediate[slot];
}

/** The request of a READ, from byte `done` on. */
export function fillRead(p: Packet, q: SendQueue, slot: number, done: number): void {
  p.opcode = Service.rc | Op.readRequest;
  p.remoteAddress = q.remoteAddress[slot] + done;
  p.remoteKey = q.remoteKey[slot];
  p.dmaLength = q.length[slot] - done;
}

export function fillAtomic(p: Packet, q: SendQueue, slot: number): void {
  p.opcode = Service.rc | (q.opcode[slot] === ATOMIC_CMP_AND_SWP ? Op.compareSwap : Op.fetchAdd);
  p.remoteAddress = q.remoteAddress[slot];
  p.remoteKey = q.remoteKey[slot];
  p.swapHi = q.swapHi[slot];
  p.swapLo = q.swapLo[slot];
  p.compareHi = q.compareHi[slot];
  p.compareLo = q.compareLo[slot];
}
