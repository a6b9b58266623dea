/** From a work request in its readable form to the form that waits in the send queue. */

import { ACCESS_LOCAL_WRITE } from '../../access.js';
import { VerbsError } from '../../errors.js';
import { OPCODES } from '../../opcode.js';
import { STATUS } from '../../status.js';
import type { SendWorkRequest } from '../../work-request.js';
import { ShmAddressHandle } from './address-handle.js';
import type { Span } from './memory-region.js';
import type { ShmQueuePair } from './queue-pair.js';
import { SendRequest } from './send-request.js';

const READ = OPCODES.indexOf('RDMA_READ');
const FETCH_AND_ADD = OPCODES.indexOf('ATOMIC_FETCH_AND_ADD');

/** Longest UD message. */
export const MTU = 4096;

/** Throws VERBS_INVALID for an address handle of another device. */
export function checkedRequest(qp: ShmQueuePair, wr: SendWorkRequest): SendRequest {
  const request = new SendRequest();
  request.opcode = OPCODES.indexOf(wr.opcode);
  request.id = wr.id ?? 0;
  request.signaled = qp.sqSigAll || (wr.signaled ?? true);
  request.solicited = wr.solicited ?? false;
  request.imm = (wr.imm ?? 0) | 0;
  request.remoteAddr = wr.remoteAddr ?? 0;
  request.rkey = wr.rkey ?? 0;
  const operand = request.opcode === FETCH_AND_ADD ? wr.add : wr.compare;
  if (operand !== undefined) [request.addLo, request.addHi] = halves(operand);
  if (wr.swap !== undefined) [request.swapLo, request.swapHi] = halves(wr.swap);
  if (wr.inlineData) {
    request.snapshot = wr.inlineData.slice();
    request.length = wr.inlineData.length;
  } else {
    gather(qp, request, wr);
    if (wr.inline && request.fault === 0) request.snapshot = request.bytes();
  }
  address(qp, request, wr.ah, wr.remoteQpn, wr.remoteQkey, wr.dcKey);
  return request;
}

/** Finds the regions of the list. A wrong one is a completion with LOC_PROT_ERR, as on a NIC. */
function gather(qp: ShmQueuePair, request: SendRequest, wr: SendWorkRequest): void {
  const pieces: Span[] = [];
  const fault = (words: string) => {
    request.fault = STATUS.LOC_PROT_ERR;
    request.faultWords = words;
  };
  for (const sge of wr.sgl ?? []) {
    request.length += sge.length;
    const region = qp.device.findRegion(sge.lkey);
    if (!region) {
      fault(`lkey ${sge.lkey} names no registered region`);
      continue;
    }
    const offset = sge.addr - region.addr;
    if (region.pd !== qp.pd) fault(`lkey ${sge.lkey} belongs to another protection domain`);
    else if (offset < 0 || offset + sge.length > region.length) {
      fault(`bytes ${offset} to ${offset + sge.length} are outside the region of ${region.length} bytes`);
    } else if (request.opcode >= READ && !(region.access & ACCESS_LOCAL_WRITE)) {
      fault(`${wr.opcode} writes its result here, but the region does not allow local write`);
    }
    if (request.fault === 0) pieces.push(...region.spans(offset, sge.length));
  }
  request.pieces = pieces;
  if (qp.type === 'UD') checkDatagram(request);
}

/** A datagram that is too long is a completion with LOC_LEN_ERR. */
export function checkDatagram(request: SendRequest): void {
  if (request.length <= MTU) return;
  request.fault = STATUS.LOC_LEN_ERR;
  request.faultWords = `${request.length} bytes do not fit into one datagram of ${MTU}`;
}

function address(qp: ShmQueuePair, request: SendRequest, ah: unknown, qpn = 0, qkey = 0, dcKey = 0): void {
  if (qp.type !== 'UD' && qp.type !== 'DCI') return;
  if (!(ah instanceof ShmAddressHandle) || ah.device !== qp.device) {
    throw new VerbsError('VERBS_INVALID', 'ah must be an address handle of this device: pd.createAh(address.av)');
  }
  request.targets = ah.targets(qpn);
  request.key = (qp.type === 'UD' ? qkey : dcKey) | 0;
}

function halves(value: bigint): [lo: number, hi: number] {
  const bits = BigInt.asUintN(64, value);
  return [Number(bits & 0xffffffffn) | 0, Number(bits >> 32n) | 0];
}
