/**
 * Work requests: the readable form (an object per request) and the prepared form (made once, posted without an object).
 */

import type { AddressHandle } from './address-handle.js';
import { VerbsError } from './errors.js';
import type { MemoryRegion, RemoteRegion, Sge } from './memory-region.js';
import { isLegalOpcode, LEGAL_TYPES, type Opcode, type QpType } from './opcode.js';

/** A send work request in the readable form. */
export interface SendWorkRequest {
  opcode: Opcode;
  /** Local memory, gathered (SEND, WRITE) or scattered into (READ, atomics). Default: empty. */
  sgl?: readonly Sge[];
  /** Unregistered bytes, taken at once (IBV_SEND_INLINE with a pointer). Instead of `sgl`; at most the queue pair's `maxInline`. */
  inlineData?: Uint8Array;
  /** Comes back in the completion. A safe integer. Default 0. */
  id?: number;
  /** Make a completion. Default: true. */
  signaled?: boolean;
  /** Copy the data out of `sgl` at once, so that the buffer may be reused when post returns. Default: false. */
  inline?: boolean;
  /** Do not start before all earlier READs and atomics of this queue pair are complete. Default: false. */
  fence?: boolean;
  /** Raise the receiver's solicited event. Default: false. */
  solicited?: boolean;
  /** Immediate data, 32 bits unsigned; for the _WITH_IMM operations. */
  imm?: number;
  /** Remote address; for WRITE, READ and atomics. */
  remoteAddr?: number;
  /** Remote key; for WRITE, READ and atomics. */
  rkey?: number;
  /** ATOMIC_FETCH_AND_ADD: what to add, 64 bits, wraps. */
  add?: bigint;
  /** ATOMIC_CMP_AND_SWP: the value expected, 64 bits. */
  compare?: bigint;
  /** ATOMIC_CMP_AND_SWP: the value to store, 64 bits. */
  swap?: bigint;
  /** Where to: for UD and DCI. */
  ah?: AddressHandle;
  /** Queue pair number at the destination: for UD and DCI. */
  remoteQpn?: number;
  /** Q_Key of the destination: for UD. */
  remoteQkey?: number;
  /** Access key of the target: for DCI. */
  dcKey?: number;
}

/** A receive work request in the readable form. */
export interface RecvWorkRequest {
  /** Where the message goes, scattered in order. UD receives need 40 bytes more for the route header. Default: empty. */
  sgl?: readonly Sge[];
  /** Comes back in the completion. A safe integer. Default 0. */
  id?: number;
}

/** What a prepared request is made from. Everything a hot loop does not change is fixed here. */
export interface PrepareSpec {
  opcode: Opcode;
  /** The local region that offsets refer to. */
  local: MemoryRegion;
  /** The remote region that offsets refer to: for WRITE, READ and atomics. */
  remote?: RemoteRegion;
  /** Default: true. `signaledEvery` wins. */
  signaled?: boolean;
  /** Make a completion for every n-th post only. Default: 1 when signaled. Range 1..65535. */
  signaledEvery?: number;
  inline?: boolean;
  fence?: boolean;
  solicited?: boolean;
  /** For UD and DCI. */
  ah?: AddressHandle;
  remoteQpn?: number;
  remoteQkey?: number;
  dcKey?: number;
}

/** A request made once and posted many times without making an object. */
export interface PreparedSend {
  /** Immediate data of the next posts, for the _WITH_IMM operations. 32 bits unsigned. */
  imm: number;
  /** Operands of the next atomic as halves of 64 bits: ADD uses add, CMP_AND_SWP compare and swap. */
  addLo: number;
  addHi: number;
  compareLo: number;
  compareHi: number;
  swapLo: number;
  swapHi: number;
  /**
   * Posts `length` bytes at `offset` of the local region, to or from `remoteOffset` of the remote region (default: the same offset).
   * Throws VerbsError as `postSend` does.
   */
  post(offset: number, length: number, id: number, remoteOffset?: number): void;
  /**
   * Does a READ or WRITE on the spot, without a completion, where the initiator reaches the memory by itself: up to 128 bytes of mapped memory, with nothing
   * posted before it under way. False, and nothing was done: post it. Devices that always post have no such call.
   */
  doNow?(offset: number, length: number, remoteOffset?: number): boolean;
}

/** A receive request made once: posts ranges of one region. */
export interface PreparedRecv {
  /** Posts `length` bytes at `offset` of the region as a receive buffer. Throws VerbsError as `postRecv` does. */
  post(offset: number, length: number, id: number): void;
}

/** Why a send request is illegal on this type of queue pair, or undefined. Only the static rules; memory is checked by the device. */
export function sendFault(
  type: QpType,
  wr: SendWorkRequest,
  limits: { maxSendSge: number; maxInline: number },
): string | undefined {
  if (!(wr.opcode in LEGAL_TYPES)) return `unknown opcode '${String(wr.opcode)}': use ${Object.keys(LEGAL_TYPES).join(', ')}`;
  if (!isLegalOpcode(type, wr.opcode)) {
    return `${wr.opcode} is not an operation of ${type} queue pairs: it needs ${LEGAL_TYPES[wr.opcode].join(', ')}`;
  }
  const sgl = wr.sgl ?? [];
  if (sgl.length > limits.maxSendSge) {
    return `${sgl.length} scatter/gather elements, but the queue pair was made with maxSendSge ${limits.maxSendSge}`;
  }
  if (wr.id !== undefined && !Number.isSafeInteger(wr.id)) return `id must be a safe integer: got ${String(wr.id)}`;
  const oneSided = wr.opcode.startsWith('RDMA_') || wr.opcode.startsWith('ATOMIC_');
  if (oneSided && !(Number.isSafeInteger(wr.remoteAddr) && Number.isInteger(wr.rkey))) {
    return `${wr.opcode} needs remoteAddr and rkey: exchange mr.remote() with the peer`;
  }
  if (
    wr.opcode.endsWith('_WITH_IMM') &&
    !(Number.isInteger(wr.imm) && (wr.imm as number) >= 0 && (wr.imm as number) <= 0xffffffff)
  ) {
    return `${wr.opcode} needs imm, an unsigned 32-bit number: got ${String(wr.imm)}`;
  }
  if (wr.opcode === 'ATOMIC_FETCH_AND_ADD' && typeof wr.add !== 'bigint') return 'ATOMIC_FETCH_AND_ADD needs add, a bigint';
  if (wr.opcode === 'ATOMIC_CMP_AND_SWP' && !(typeof wr.compare === 'bigint' && typeof wr.swap === 'bigint')) {
    return 'ATOMIC_CMP_AND_SWP needs compare and swap, both bigint';
  }
  const bytes = wr.inlineData ? wr.inlineData.length : sgl.reduce((sum, s) => sum + s.length, 0);
  if (wr.opcode.startsWith('ATOMIC_') && bytes !== 8) return `an atomic returns 8 bytes: the sgl holds ${bytes}`;
  if (oneSided && wr.opcode.startsWith('ATOMIC_') && (wr.remoteAddr as number) % 8 !== 0) {
    return `an atomic works on 8 aligned bytes: remoteAddr ${wr.remoteAddr} is not a multiple of 8`;
  }
  if (wr.inline || wr.inlineData) {
    if (wr.opcode === 'RDMA_READ' || wr.opcode.startsWith('ATOMIC_')) return `${wr.opcode} cannot be inline: it returns data`;
    if (bytes > limits.maxInline) return `${bytes} bytes inline, but the queue pair was made with maxInline ${limits.maxInline}`;
    if (wr.inlineData && sgl.length > 0) return 'give either sgl or inlineData';
  }
  if (type === 'UD' && !(wr.ah && Number.isInteger(wr.remoteQpn) && Number.isInteger(wr.remoteQkey))) {
    return 'a UD request needs ah, remoteQpn and remoteQkey: which peer it goes to';
  }
  if (type === 'DCI' && !(wr.ah && Number.isInteger(wr.remoteQpn) && Number.isInteger(wr.dcKey))) {
    return 'a DCI request needs ah, remoteQpn and dcKey: which target it goes to';
  }
  return undefined;
}

/**
 * Checks what a prepared request is made from, as postSend would check a request of it. Returns after how many posts a completion is due, 0 for never.
 * Throws VERBS_INVALID, VERBS_ILLEGAL.
 */
export function checkPrepared(
  qp: { type: QpType; maxSendSge: number; maxInline: number; sqSigAll: boolean },
  spec: PrepareSpec,
): number {
  const { signaledEvery, remote, local } = spec;
  if (signaledEvery !== undefined && !(Number.isInteger(signaledEvery) && signaledEvery >= 1 && signaledEvery <= 65535)) {
    throw new VerbsError('VERBS_INVALID', `signaledEvery must be 1 to 65535: got ${String(signaledEvery)}`);
  }
  const isAtomic = spec.opcode.startsWith('ATOMIC_');
  const sample: SendWorkRequest = {
    ...spec,
    sgl: isAtomic ? [local.slice(0, Math.min(8, local.length))] : [],
    imm: 0,
    remoteAddr: remote && (isAtomic ? 0 : remote.addr),
    rkey: remote?.rkey,
    add: 0n,
    compare: 0n,
    swap: 0n,
  };
  const fault = sendFault(qp.type, sample, qp);
  if (fault) rejectRequest(fault, 0);
  return qp.sqSigAll ? 1 : (signaledEvery ?? (spec.signaled === false ? 0 : 1));
}

/** Throws VERBS_INVALID for a range that a prepared request's region does not hold. */
export function rejectRange(offset: number, length: number, regionLength: number): never {
  const words = `bytes ${offset} to ${offset + length} are outside the region of ${regionLength} bytes`;
  throw new VerbsError('VERBS_INVALID', words, { badIndex: 0 });
}

/** Throws VERBS_INVALID or VERBS_ILLEGAL with the index of the bad request. */
export function rejectRequest(fault: string, badIndex: number): never {
  const illegal = fault.includes('is not an operation of');
  throw new VerbsError(illegal ? 'VERBS_ILLEGAL' : 'VERBS_INVALID', `work request ${badIndex}: ${fault}`, { badIndex });
}
