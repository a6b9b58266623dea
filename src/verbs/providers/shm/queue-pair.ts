/**
 * The queue pair of the shm provider. The initiator plays the NIC: a request is checked, carried out and completed inside `post`.
 *
 * What cannot be carried out at once waits in `pending`, in order: the receiver is not ready (RNR), the peer is not connected yet, or a large copy runs on
 * the transfer thread. Pending requests go on in `poll` and in the event loop's turn.
 *
 * ```
 *   post ──> pending empty? ──yes──> execute ──done──> completion
 *                │no                    │RNR, not connected, transfer
 *                └──────> [ pending ] <─┘   ──poll──> execute again ... or the retry count ends: error, flush, ERR
 * ```
 */

import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, accessWords } from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { OPCODES, QP_TYPES, WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../../opcode.js';
import type { QpInit } from '../../protection-domain.js';
import { ackTimeoutUs, QP_STATES, type QpAttributes, type QpState, RNR_TIMER_US } from '../../qp-state.js';
import { type QpAddress, QueuePair } from '../../queue-pair.js';
import { STATUS } from '../../status.js';
import {
  type PreparedRecv,
  type PreparedSend,
  type PrepareSpec,
  type RecvWorkRequest,
  rejectRequest,
  type SendWorkRequest,
  sendFault,
} from '../../work-request.js';
import { ShmAddressHandle } from './address-handle.js';
import type { ShmCompletionQueue } from './completion-queue.js';
import { parseGid } from './control.js';
import type { ShmDevice } from './device.js';
import {
  C_BYTES,
  C_ERRORS,
  C_OPERATIONS,
  C_SYSTEM_CALLS,
  COUNTERS,
  H_RETIRED_F64,
  IN_ANNOUNCE,
  IN_ANNOUNCE_TRANSFER,
  KIND_PRIVATE,
  QP_ACCESS,
  QP_COUNTERS_F64,
  QP_CQ_RING,
  QP_DEST,
  QP_DEST_ID_HI,
  QP_DEST_ID_LO,
  QP_KEY,
  QP_LIFE,
  QP_MIN_RNR_TIMER,
  QP_PD,
  QP_READ_RESOURCES,
  QP_RECV_CQ,
  QP_REMOTE_FAULT,
  QP_RING_DEPTH,
  QP_RING_OFFSET_F64,
  QP_RING_SEGMENT,
  QP_RING_SHARED,
  QP_RING_STRIDE,
  QP_STATE,
  QP_TYPE,
  QP_WORDS,
  QPS,
  SLOT_BYTES,
  SLOT_FLAGS,
  SLOT_GRH,
  SLOT_IMM,
  SLOT_INLINE,
  SLOT_LENGTH,
  SLOT_PAYLOAD,
  SLOT_PAYLOAD_BYTES,
  SLOT_QP,
  SLOT_SGE,
  SLOT_SGES,
  SLOT_SOLICITED,
  SLOT_SRC_QP,
  SLOT_WITH_IMM,
} from './layout.js';
import type { ShmMemoryRegion, Span } from './memory-region.js';
import type { Peer, RemoteRef } from './peer.js';
import { ShmPreparedRecv, ShmPreparedSend } from './prepared.js';
import type { ShmProtectionDomain } from './protection-domain.js';
import { ReceiveRing } from './receive-ring.js';
import { SendRequest } from './send-request.js';
import type { ShmSharedReceiveQueue } from './shared-receive-queue.js';
import { Target } from './target.js';

const SEND_WITH_IMM = OPCODES.indexOf('SEND_WITH_IMM');
const WRITE = OPCODES.indexOf('RDMA_WRITE');
const WRITE_WITH_IMM = OPCODES.indexOf('RDMA_WRITE_WITH_IMM');
const READ = OPCODES.indexOf('RDMA_READ');
const FETCH_AND_ADD = OPCODES.indexOf('ATOMIC_FETCH_AND_ADD');

/** Results of carrying out a request: done, wait, or a completion status plus FAILED. */
const DONE = 0;
const NOT_READY = 1;
const NOT_CONNECTED = 2;
const IN_TRANSFER = 3;
const FAILED = 16;

const GRH_BYTES = 40;
/** Longest UD message. */
export const MTU = 4096;

const UD = QP_TYPES.indexOf('UD');
const DCT = QP_TYPES.indexOf('DCT');

export class ShmQueuePair extends QueuePair {
  readonly device: ShmDevice;
  readonly pd: ShmProtectionDomain;
  readonly qpNum: number;
  readonly ring: ReceiveRing;
  /** Where this queue pair's counters and entry are. */
  readonly at: number;
  readonly counterAt: number;
  readonly f64: Float64Array;
  /** The peer of RC and UC. */
  target: Target | undefined;
  peer: Peer | undefined;
  /** 1: in RTS, nothing pending, bound: prepared requests may take the short way after checking the peer's state word. */
  fast = 0;
  /** Send queue positions, 31 bits: posted, and freed by polled completions. */
  sqPosted = 0;
  sqDone = 0;
  flushCauseId = 0;
  readonly pending: SendRequest[] = [];
  /** A transfer of the first pending request runs. */
  inTransfer = false;
  closed = false;
  readonly #i32: Int32Array;
  readonly #send: ShmCompletionQueue;
  readonly #recv: ShmCompletionQueue;
  #epoch = 0;
  /** In SQD: requests from this position on wait for RTS; whether to tell when the ones before are done. */
  #drainTo = 0;
  #tellDrained = false;
  #words = '';
  readonly #groups = new Set<string>();

  constructor(pd: ShmProtectionDomain, init: QpInit) {
    super(init);
    const device = pd.device;
    this.device = device;
    this.pd = pd;
    this.#i32 = device.i32;
    this.f64 = device.f64;
    this.#send = this.sendCq as ShmCompletionQueue;
    this.#recv = this.recvCq as ShmCompletionQueue;
    if (this.#send?.device !== device || this.#recv?.device !== device) {
      throw new VerbsError('VERBS_INVALID', 'sendCq and recvCq must be completion queues of the same device');
    }
    const srq = init.srq as ShmSharedReceiveQueue | undefined;
    if (srq && srq.pd !== pd) throw new VerbsError('VERBS_INVALID', 'the srq belongs to another protection domain');
    this.ring = srq
      ? srq.ring
      : new ReceiveRing(device, this.maxRecvWr, this.maxRecvSge, init.type === 'UD', (qpNum) => device.queuePairs.get(qpNum));
    this.qpNum = device.qpPool.take();
    if (!srq) this.ring.qp = this;
    if (srq) srq.users++;
    this.at = QPS + this.qpNum * QP_WORDS;
    this.counterAt = (this.at >> 1) + QP_COUNTERS_F64;
    const i32 = this.#i32;
    const life = i32[this.at + QP_LIFE];
    i32.fill(0, this.at, this.at + QP_WORDS);
    i32[this.at + QP_LIFE] = life + 1;
    i32[this.at + QP_READ_RESOURCES] = 16;
    i32[this.at + QP_TYPE] = QP_TYPES.indexOf(this.type);
    i32[this.at + QP_PD] = pd.number;
    i32[this.at + QP_KEY] = this.dcKey | 0;
    i32[this.at + QP_RECV_CQ] = this.#recv.number;
    i32[this.at + QP_CQ_RING] = this.#recv.addRing(this.ring);
    i32[this.at + QP_RING_SEGMENT] = this.ring.block.segmentIndex;
    this.f64[(this.at >> 1) + QP_RING_OFFSET_F64] = this.ring.block.offset;
    i32[this.at + QP_RING_DEPTH] = this.ring.depth;
    i32[this.at + QP_RING_STRIDE] = this.ring.stride;
    i32[this.at + QP_RING_SHARED] = this.ring.shared ? 1 : 0;
    this.#epoch = life * 16;
    this.#show('RESET');
    this.#send.users++;
    this.#recv.users++;
    pd.users++;
    device.noteQp(this);
  }

  /** How messages name the other side. */
  get peerName(): string {
    if (!this.peer) return 'unknown';
    return `${this.peer.name}, QP ${this.target?.qpNum ?? '?'}`;
  }

  address(): QpAddress {
    const base = {
      v: 1 as const,
      provider: 'shm',
      av: { gid: this.device.gid },
      qpNum: this.qpNum,
      psn: 0,
      mtu: MTU,
      type: this.type,
    };
    if (this.type === 'UD') return { ...base, qkey: this.attributes.qkey ?? 0x11111111 };
    return this.type === 'DCT' ? { ...base, dcKey: this.dcKey } : base;
  }

  count(counter: number, by: number): void {
    this.f64[this.counterAt + counter] += by;
  }

  /** Publishes a state to peers under a new epoch. */
  #show(state: QpState): void {
    this.#epoch = (this.#epoch + 1) & 0x7ffffff;
    Atomics.store(this.#i32, this.at + QP_STATE, (this.#epoch << 4) | (QP_STATES.indexOf(state) + 1));
  }

  protected transition(from: QpState, to: QpState, attributes: QpAttributes): void {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed');
    const i32 = this.#i32;
    const at = this.at;
    this.fast = 0;
    if (attributes.accessFlags !== undefined) i32[at + QP_ACCESS] = attributes.accessFlags;
    if (attributes.qkey !== undefined) i32[at + QP_KEY] = attributes.qkey | 0;
    if (attributes.minRnrTimer !== undefined) i32[at + QP_MIN_RNR_TIMER] = attributes.minRnrTimer;
    if (attributes.maxDestRdAtomic !== undefined) i32[at + QP_READ_RESOURCES] = attributes.maxDestRdAtomic;
    if (to === 'RTR' && attributes.av && attributes.destQpNum !== undefined) {
      const id = parseGid(attributes.av.gid);
      const peer = this.device.peer(attributes.av.gid);
      peer.enlist(this.device.control.id, this.device.control.startTime);
      this.peer = peer;
      this.device.retainPeer(peer);
      this.target = new Target(peer, attributes.destQpNum);
      i32[at + QP_DEST] = attributes.destQpNum;
      i32[at + QP_DEST_ID_LO] = id.idLo;
      i32[at + QP_DEST_ID_HI] = id.idHi;
    }
    if (to === 'RESET') {
      this.#leave();
      this.pending.length = 0;
      this.inTransfer = false;
      this.sqPosted = 0;
      this.sqDone = 0;
      this.flushCauseId = 0;
      i32[at + QP_LIFE]++;
      i32[at + QP_REMOTE_FAULT] = 0;
      this.#show('RESET');
      if (!this.ring.shared) this.ring.reset();
      this.device.settle(this);
      return;
    }
    this.#show(to);
    if (to === 'ERR') {
      this.enter('ERR');
      this.#flush(0);
    } else if (to === 'SQD') {
      this.#drainTo = this.sqPosted;
      this.#tellDrained = attributes.enSqdAsyncNotify ?? false;
      if (this.pending.length === 0) this.#drained();
    } else if (to === 'RTS' && from === 'SQD') {
      this.enter('RTS');
      this.advance();
    }
  }

  #drained(): void {
    if (!this.#tellDrained) return;
    this.#tellDrained = false;
    this.device.raise({ type: 'SQ_DRAINED', qpNum: this.qpNum, words: 'the send queue is drained' });
  }

  /** Lets go of the peer. */
  #leave(): void {
    if (this.peer && (this.type === 'RC' || this.type === 'UC')) this.device.releasePeer(this.peer);
    this.peer = undefined;
    this.target = undefined;
  }

  // ---- posting ----

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    for (let i = 0; i < chain.length; i++) {
      const one = chain[i];
      this.#checkState(i);
      const fault = sendFault(this.type, one, this);
      if (fault) rejectRequest(fault, i);
      this.checkRoom(i);
      this.submit(this.#request(one));
    }
  }

  #checkState(badIndex: number): void {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex });
    const state = this.state;
    if (this.type === 'DCT') throw new VerbsError('VERBS_ILLEGAL', 'a DCT only receives: post sends on a DCI', { badIndex });
    if (state === 'RESET' || state === 'INIT' || state === 'RTR') {
      throw new VerbsError(
        'VERBS_ILLEGAL',
        `sends can be posted in RTS, SQD, SQE and ERR: the queue pair is in ${state}; connect it first`,
        {
          badIndex,
        },
      );
    }
  }

  /** Throws VERBS_QUEUE_FULL when maxSendWr requests are outstanding. */
  checkRoom(badIndex: number): void {
    if (((this.sqPosted - this.sqDone) & 0x7fffffff) >= this.maxSendWr) {
      throw new VerbsError(
        'VERBS_QUEUE_FULL',
        `${this.maxSendWr} send requests are outstanding: poll completions; unsignaled requests are freed by the next signaled one`,
        { badIndex },
      );
    }
  }

  #request(wr: SendWorkRequest): SendRequest {
    const request = new SendRequest();
    request.opcode = OPCODES.indexOf(wr.opcode);
    request.id = wr.id ?? 0;
    request.signaled = this.sqSigAll || (wr.signaled ?? true);
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
      this.#gather(request, wr);
      if (wr.inline && request.fault === 0) request.snapshot = snapshot(request);
    }
    this.#address(request, wr.ah, wr.remoteQpn, wr.remoteQkey, wr.dcKey);
    return request;
  }

  /** Finds the regions of the list. A wrong one is a completion with LOC_PROT_ERR, as on a NIC. */
  #gather(request: SendRequest, wr: SendWorkRequest): void {
    const pieces: Span[] = [];
    const fault = (words: string) => {
      request.fault = STATUS.LOC_PROT_ERR;
      request.faultWords = words;
    };
    for (const sge of wr.sgl ?? []) {
      request.length += sge.length;
      const region = this.device.findRegion(sge.lkey);
      if (!region) {
        fault(`lkey ${sge.lkey} names no registered region`);
        continue;
      }
      const offset = sge.addr - region.addr;
      if (region.pd !== this.pd) fault(`lkey ${sge.lkey} belongs to another protection domain`);
      else if (offset < 0 || offset + sge.length > region.length) {
        fault(`bytes ${offset} to ${offset + sge.length} are outside the region of ${region.length} bytes`);
      } else if (request.opcode >= READ && !(region.access & ACCESS_LOCAL_WRITE)) {
        fault(`${wr.opcode} writes its result here, but the region does not allow local write`);
      }
      if (request.fault === 0) pieces.push(...region.spans(offset, sge.length));
    }
    request.pieces = pieces;
    if (this.type === 'UD' && request.length > MTU) {
      request.fault = STATUS.LOC_LEN_ERR;
      request.faultWords = `${request.length} bytes do not fit into one datagram of ${MTU}`;
    }
  }

  #address(request: SendRequest, ah: unknown, qpn = 0, qkey = 0, dcKey = 0): void {
    if (this.type !== 'UD' && this.type !== 'DCI') return;
    if (!(ah instanceof ShmAddressHandle) || ah.device !== this.device) {
      throw new VerbsError('VERBS_INVALID', 'ah must be an address handle of this device: pd.createAh(address.av)');
    }
    request.targets = ah.targets(qpn);
    request.key = (this.type === 'UD' ? qkey : dcKey) | 0;
  }

  /** Takes a checked request into the send queue. */
  submit(request: SendRequest): void {
    request.sqPosition = this.sqPosted;
    this.sqPosted = (this.sqPosted + 1) & 0x7fffffff;
    if (this.state === 'ERR' || this.state === 'SQE') {
      this.#complete(request, STATUS.WR_FLUSH_ERR, this.flushCauseId);
      return;
    }
    if (this.pending.length > 0 || this.state === 'SQD') {
      this.#defer(request);
      return;
    }
    const result = this.#execute(request);
    if (result === DONE) this.#complete(request, 0, 0);
    else if (result < FAILED) this.#wait(request, result);
    else this.#fail(request, result - FAILED);
  }

  #defer(request: SendRequest): void {
    this.fast = 0;
    this.pending.push(request);
    this.device.unsettle(this);
  }

  #wait(request: SendRequest, reason: number): void {
    request.waitingFor = reason;
    request.tries = 0;
    request.nextTry = 0;
    if (reason === IN_TRANSFER) this.inTransfer = true;
    this.#defer(request);
    // Retry counts of zero fail at the first refusal.
    if (reason !== IN_TRANSFER) this.#expire(request);
  }

  /** Looks after the pending requests. Called by the device from every poll while there are some. */
  advance(): void {
    while (this.pending.length > 0 && (this.state === 'RTS' || this.state === 'SQD') && !this.inTransfer) {
      const request = this.pending[0];
      if (this.state === 'SQD' && request.sqPosition === this.#drainTo) break;
      const result = this.#execute(request);
      if (result === DONE) {
        this.pending.shift();
        this.#complete(request, 0, 0);
      } else if (result >= FAILED) {
        this.pending.shift();
        this.#fail(request, result - FAILED);
      } else if (result === IN_TRANSFER) {
        this.inTransfer = true;
      } else {
        if (request.waitingFor !== result) {
          request.waitingFor = result;
          request.tries = 0;
          request.nextTry = 0;
        }
        if (this.#expire(request)) continue;
        return;
      }
    }
    if (this.state === 'SQD' && !this.inTransfer && (this.pending[0]?.sqPosition ?? this.#drainTo) === this.#drainTo)
      this.#drained();
    if (this.pending.length === 0) this.device.settle(this);
  }

  /** The transfer thread finished the first pending request. */
  transferred(errno: number): void {
    const request = this.pending.shift();
    this.inTransfer = false;
    if (!request) return;
    if (errno === 0) {
      this.#count(request);
      if (request.opcode <= SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM) this.#advancePosition();
      this.#complete(request, 0, 0);
    } else {
      this.#words =
        errno === 13
          ? `the key 0x${request.rkey.toString(16)} was revoked while the transfer waited`
          : `the kernel refused the copy (errno ${errno}): has the peer ended, or is process_vm_readv not permitted here? verbena doctor says which`;
      this.#fail(request, errno === 13 ? STATUS.REM_ACCESS_ERR : STATUS.REM_OP_ERR);
    }
    this.advance();
  }

  #advancePosition(): void {
    const target = this.target;
    if (target && !target.shared) target.position = (target.position + 1) | 0;
  }

  /** Counts a refused try. True when the request failed because its retries are used up. */
  #expire(request: SendRequest): boolean {
    const now = performance.now();
    const { retryCnt = 7, rnrRetry = 7, timeout = 14 } = this.attributes;
    const notReady = request.waitingFor === NOT_READY;
    if (this.peer?.dead) {
      this.#words = `${this.peerName} ended`;
    } else {
      const limit = notReady ? (rnrRetry === 7 ? Number.POSITIVE_INFINITY : rnrRetry) : retryCnt + 1;
      const periodMs = (notReady ? RNR_TIMER_US[this.target?.minRnrTimer ?? 0] : ackTimeoutUs(timeout)) / 1000;
      if (request.nextTry === 0) {
        request.nextTry = now + periodMs;
        request.tries = notReady ? 0 : 1;
      } else if (now >= request.nextTry) {
        request.tries++;
        request.nextTry = now + periodMs;
      }
      if (request.tries <= limit && !(notReady && rnrRetry === 0)) return false;
      this.#words = notReady
        ? `${this.peerName} had no receive request posted in ${rnrRetry} retries of ${periodMs} ms: post receives earlier, or raise rnrRetry (7 is endless)`
        : `${this.peerName} did not answer in ${retryCnt} retries of ${periodMs.toFixed(1)} ms: is its queue pair connected to QP ${this.qpNum} of this process, and in RTR or RTS?`;
    }
    const at = this.pending.indexOf(request);
    if (at >= 0) this.pending.splice(at, 1);
    this.#fail(request, notReady && !this.peer?.dead ? STATUS.RNR_RETRY_EXC_ERR : STATUS.RETRY_EXC_ERR);
    return true;
  }

  // ---- carrying out ----

  #failed(status: number, words: string): number {
    this.#words = words;
    return FAILED + status;
  }

  #execute(request: SendRequest): number {
    if (request.fault !== 0) return this.#failed(request.fault, request.faultWords);
    if (this.type === 'UD') {
      for (const target of request.targets) this.#datagram(request, target);
      this.#count(request);
      return DONE;
    }
    let target = this.target;
    if (this.type === 'DCI') {
      target = request.targets[0];
      this.target = target;
      this.peer = target?.peer;
    }
    if (!target || target.peer.dead) return this.type === 'UC' ? DONE : target ? this.#lost(target) : NOT_CONNECTED;
    if (!this.#isLinked(target)) return this.type === 'UC' ? DONE : NOT_CONNECTED;
    if (this.type === 'DCI' && target.key !== request.key) {
      return this.#failed(STATUS.REM_ACCESS_ERR, `the DC key ${request.key} is not the target's: use the dcKey of its address()`);
    }
    for (const { region } of request.pieces) {
      if (!region.live)
        return this.#failed(STATUS.LOC_PROT_ERR, `lkey ${region.lkey} was deregistered before the request was carried out`);
      if (region.u8.length === 0)
        return this.#failed(STATUS.LOC_PROT_ERR, `the buffer of lkey ${region.lkey} was detached, or the region is a descriptor`);
    }
    const opcode = request.opcode;
    if (opcode >= READ && target.readResources === 0) {
      this.#blame(target, 2);
      return this.#failed(
        STATUS.REM_INV_REQ_ERR,
        'the responder keeps no resources for READs and atomics: connect it with maxDestRdAtomic of at least 1',
      );
    }
    let result: number;
    if (opcode <= SEND_WITH_IMM) result = this.#deliver(request, target);
    else if (opcode <= READ) result = this.#access(request, target);
    else result = this.#atomic(request, target);
    if (result !== DONE && result !== IN_TRANSFER && this.type === 'UC') {
      // Unreliable: what the responder refuses or cannot take is lost, and the sender does not learn of it.
      return result - FAILED === STATUS.LOC_PROT_ERR ? result : DONE;
    }
    if (result === DONE) {
      this.#count(request);
      if (this.pending.length === 0 && this.state === 'RTS' && this.type !== 'DCI') this.fast = 1;
    }
    return result;
  }

  #lost(target: Target): number {
    return this.#failed(STATUS.RETRY_EXC_ERR, `${target.peer.name} ended`);
  }

  #count(request: SendRequest): void {
    this.count(C_OPERATIONS, 1);
    this.count(C_BYTES, request.length);
  }

  /** Whether the target is there and takes requests from this queue pair. */
  #isLinked(target: Target): boolean {
    const word = Atomics.load(target.peer.i32, target.at + QP_STATE);
    if (word === target.word && word !== 0) return true;
    if (!target.bind()) return false;
    const state = QP_STATES[(target.word & 15) - 1];
    const receives = state === 'RTR' || state === 'RTS' || state === 'SQD' || state === 'SQE';
    const { idLo, idHi } = this.device.control.id;
    const fits =
      this.type === 'DCI'
        ? target.type === DCT
        : target.isConnectedTo(this.qpNum, idLo, idHi) && target.type === QP_TYPES.indexOf(this.type);
    if (receives && fits) return true;
    target.word = 0;
    return false;
  }

  /** Fills the mover's local list. */
  #local(request: SendRequest): void {
    const mover = this.device.mover;
    mover.clearLocal();
    if (request.snapshot) {
      mover.addLocal(this.device.scratch(request.snapshot), request.length);
      return;
    }
    for (const { region, offset, length } of request.pieces) mover.addLocal(region.addr + offset, length);
  }

  /** SEND: takes a receive request of the target, fills its buffers, publishes the completion. */
  #deliver(request: SendRequest, target: Target): number {
    const position = this.#nextSlot(target);
    if (position < 0) return NOT_READY;
    const slot = target.slots + (position & target.mask) * target.stride;
    const i32 = target.i32;
    const length = request.length;
    const capacity = i32[slot + SLOT_LENGTH];
    if (length > capacity) {
      this.#publish(request, target, position, WC_RECV, STATUS.LOC_LEN_ERR, 0);
      return this.#failed(
        STATUS.REM_INV_REQ_ERR,
        `${length} bytes were sent, but the receive request of ${this.peerName} holds ${capacity}: post larger buffers`,
      );
    }
    if (length <= SLOT_PAYLOAD_BYTES) {
      if (!this.#isReceivable(target, slot)) return this.#unreceivable(request, target, position);
      this.#payload(request, target, slot);
      this.#publish(request, target, position, WC_RECV, 0, SLOT_INLINE);
      return DONE;
    }
    const moved = this.#scatter(request, target, slot, position, 0);
    if (moved === IN_TRANSFER) return IN_TRANSFER;
    if (moved !== DONE) return this.#unreceivable(request, target, position);
    this.#publish(request, target, position, WC_RECV, 0, 0);
    return DONE;
  }

  /** Whether the buffers of a receive request are registered. */
  #isReceivable(target: Target, slot: number): boolean {
    for (let s = 0; s < target.i32[slot + SLOT_SGES]; s++) {
      if (!target.peer.resolve(target.i32[slot + SLOT_SGE + s * 4 + 3] >>> 0)) return false;
    }
    return true;
  }

  #unreceivable(request: SendRequest, target: Target, position: number): number {
    this.#publish(request, target, position, WC_RECV, STATUS.LOC_PROT_ERR, 0);
    return this.#failed(STATUS.REM_OP_ERR, `the receive buffer of ${this.peerName} is not registered any more`);
  }

  /** The position that the next message takes, or -1 for "receiver not ready". */
  #nextSlot(target: Target): number {
    if (target.shared) return target.claim(target.peer.owner);
    if (target.position === target.limit && !target.refill()) return -1;
    return target.position >>> 0;
  }

  /** Small payloads ride in the completion entry. */
  #payload(request: SendRequest, target: Target, slot: number): void {
    let at = (slot + SLOT_PAYLOAD) * 4;
    if (request.snapshot) {
      target.u8.set(request.snapshot, at);
      return;
    }
    for (const { region, offset, length } of request.pieces) {
      const from = region.start + offset;
      for (let b = 0; b < length; b++) target.u8[at + b] = region.u8[from + b];
      at += length;
    }
  }

  /** Copies into the buffers of a receive request, behind `skip` bytes. DONE, IN_TRANSFER, or 1 when a buffer is not reachable. */
  #scatter(request: SendRequest, target: Target, slot: number, position: number, skip: number): number {
    const { peer, i32, f64 } = target;
    const { mover } = this.device;
    const count = i32[slot + SLOT_SGES];
    this.#local(request);
    mover.clearRemote();
    let left = request.length;
    let passed = skip;
    let ref: RemoteRef | undefined;
    for (let s = 0; s < count && left > 0; s++) {
      const at = slot + SLOT_SGE + s * 4;
      const available = i32[at + 2] - Math.min(passed, i32[at + 2]);
      const address = f64[at >> 1] + (i32[at + 2] - available);
      passed -= i32[at + 2] - available;
      const n = Math.min(left, available);
      if (n === 0) continue;
      const next = peer.resolve(i32[at + 3] >>> 0);
      if (!next || !(next.access & ACCESS_LOCAL_WRITE)) return FAILED;
      if (ref && next !== ref) return this.#scatterApart(request, target, slot, skip);
      ref = next;
      mover.addRemote(peer, next, address, n);
      left -= n;
    }
    if (!ref) return DONE;
    if (request.length >= this.device.transferThreshold && this.#transfer(request, target, ref, true, position))
      return IN_TRANSFER;
    return this.#guarded(peer, ref, true);
  }

  /** The buffers of the receive request lie in several regions: one guarded copy each. */
  #scatterApart(request: SendRequest, target: Target, slot: number, skip: number): number {
    const { peer, i32, f64 } = target;
    const { mover } = this.device;
    const bytes = request.snapshot ?? snapshot(request);
    const staging = this.device.arena.take(bytes.length);
    staging.segment.u8.set(bytes, staging.offset);
    try {
      let from = 0;
      let passed = skip;
      for (let s = 0; s < i32[slot + SLOT_SGES] && from < bytes.length; s++) {
        const at = slot + SLOT_SGE + s * 4;
        const jump = Math.min(passed, i32[at + 2]);
        passed -= jump;
        const n = Math.min(bytes.length - from, i32[at + 2] - jump);
        if (n === 0) continue;
        const ref = peer.resolve(i32[at + 3] >>> 0);
        if (!ref || !(ref.access & ACCESS_LOCAL_WRITE)) return FAILED;
        mover.clearLocal();
        mover.addLocal(staging.segment.address + staging.offset + from, n);
        mover.clearRemote();
        mover.addRemote(peer, ref, f64[at >> 1] + jump, n);
        const moved = this.#guarded(peer, ref, true);
        if (moved !== DONE) return moved;
        from += n;
      }
    } finally {
      this.device.arena.give(staging);
    }
    return DONE;
  }

  /** Announces the key, checks that it still holds, moves, takes the announcement back. DONE, or FAILED when it was revoked or refused. */
  #guarded(peer: Peer, ref: RemoteRef, write: boolean): number {
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, ref.index + 1);
    let result = FAILED;
    if (Atomics.load(peer.i32, ref.entry) === ref.serial) {
      const { mover } = this.device;
      result = mover.move(peer.pid, write) === 0 ? DONE : FAILED;
      this.count(C_SYSTEM_CALLS, mover.systemCalls);
    }
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, 0);
    return result;
  }

  /** Hands the prepared move to the transfer thread. False when it has too many parts. `position`: -1, or the slot to complete at the end. */
  #transfer(request: SendRequest, target: Target, ref: RemoteRef, write: boolean, position: number): boolean {
    const { peer } = target;
    const entry = this.device.entry;
    let slotAddress = 0;
    if (position >= 0) {
      const slot = target.slots + (position & target.mask) * target.stride;
      slotAddress = target.ringAddress + slot * 4;
      const withImm = request.opcode === SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM;
      const code = request.opcode >= WRITE ? WC_RECV_RDMA_WITH_IMM : WC_RECV;
      entry[0] = (position + 1) | 0;
      entry[SLOT_FLAGS] = code | (((withImm ? SLOT_WITH_IMM : 0) | (request.solicited ? SLOT_SOLICITED : 0)) << 16);
      entry[SLOT_BYTES] = request.length;
      entry[SLOT_IMM] = request.imm;
      entry[SLOT_SRC_QP] = this.qpNum;
      entry[SLOT_QP] = target.qpNum;
    }
    return this.device.startTransfer(this, request, {
      write,
      pid: peer.pid,
      announcement: peer.control.address + (peer.slot + IN_ANNOUNCE_TRANSFER) * 4,
      announce: ref.index + 1,
      serial: peer.control.address + ref.entry * 4,
      expected: ref.serial,
      slot: slotAddress,
      cq: peer.control.address + target.cqAt * 4,
      ring: target.cqRing,
      solicited: request.solicited,
      bell: peer.bell,
    });
  }

  /** Fills the completion entry and makes it visible. */
  #publish(request: SendRequest, target: Target, position: number, opcode: number, status: number, bits: number): void {
    const i32 = target.i32;
    const slot = target.slots + (position & target.mask) * target.stride;
    const withImm = request.opcode === SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM;
    const flags = bits | (withImm ? SLOT_WITH_IMM : 0) | (request.solicited ? SLOT_SOLICITED : 0);
    i32[slot + SLOT_FLAGS] = opcode | (status << 8) | (flags << 16);
    i32[slot + SLOT_BYTES] = status === 0 ? request.length + (bits & SLOT_GRH ? GRH_BYTES : 0) : 0;
    i32[slot + SLOT_IMM] = request.imm;
    i32[slot + SLOT_SRC_QP] = this.qpNum;
    i32[slot + SLOT_QP] = target.qpNum;
    Atomics.store(i32, slot, (position + 1) | 0);
    if (!target.shared) target.position = (position + 1) | 0;
    if (Atomics.load(target.peer.i32, target.cqAt) !== 0) this.notify(target, request.solicited || status !== 0);
  }

  /** The receiver's queue is armed or keeps a bitmap. */
  notify(target: Target, solicited: boolean): void {
    const { command, addon } = this.device.door;
    command[0] = target.peer.control.address + target.cqAt * 4;
    command[1] = target.cqRing;
    command[2] = solicited ? 1 : 0;
    command[3] = target.peer.bell;
    addon.notify();
    if (command[4] === 1) this.count(C_SYSTEM_CALLS, 1);
  }

  /** WRITE and READ. */
  #access(request: SendRequest, target: Target): number {
    const { peer } = target;
    const write = request.opcode !== READ;
    const withImm = request.opcode === WRITE_WITH_IMM;
    let ref: RemoteRef | undefined;
    if (request.length > 0) {
      ref = this.#permitted(request, target, write ? ACCESS_REMOTE_WRITE : ACCESS_REMOTE_READ);
      if (!ref) return this.#refused(target);
    }
    const position = withImm ? this.#nextSlot(target) : 0;
    if (position < 0) return NOT_READY;
    if (ref) {
      this.#local(request);
      const { mover } = this.device;
      mover.clearRemote();
      if (!mover.addRemote(peer, ref, request.remoteAddr, request.length))
        return this.#refused(target, 'a part of the indexed region is gone');
      if (
        request.length >= this.device.transferThreshold &&
        this.#transfer(request, target, ref, write, withImm ? position : -1)
      ) {
        return IN_TRANSFER;
      }
      if (this.#guarded(peer, ref, write) !== DONE) {
        if (Atomics.load(peer.i32, ref.entry) === ref.serial) {
          return this.#failed(
            STATUS.REM_OP_ERR,
            ref.kind === KIND_PRIVATE
              ? `the kernel refused to copy ${write ? 'into' : 'out of'} ${peer.name}: process_vm_readv is not permitted (Yama, seccomp) or the buffer was detached; use device.alloc, or see verbena doctor`
              : `the memory of ${peer.name} could not be reached`,
          );
        }
        return this.#refused(target, `the key 0x${request.rkey.toString(16)} was revoked`);
      }
    }
    if (withImm) this.#publish(request, target, position, WC_RECV_RDMA_WITH_IMM, 0, 0);
    return DONE;
  }

  #atomic(request: SendRequest, target: Target): number {
    const { peer } = target;
    const ref = this.#permitted(request, target, ACCESS_REMOTE_ATOMIC);
    if (!ref) return this.#refused(target);
    const { mover, door } = this.device;
    const { command, words, addon } = door;
    mover.clearRemote();
    const reachable = mover.addRemote(peer, ref, request.remoteAddr, 8);
    const address = mover.directAddress(8);
    if (!reachable || address === 0 || address % 8 !== 0) {
      this.#blame(target, 2);
      return this.#failed(STATUS.REM_INV_REQ_ERR, 'an atomic needs 8 aligned bytes of arena or file memory in one piece');
    }
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, ref.index + 1);
    const valid = Atomics.load(peer.i32, ref.entry) === ref.serial;
    if (valid) {
      command[0] = address;
      words[10] = request.addLo;
      words[11] = request.addHi;
      if (request.opcode === FETCH_AND_ADD) {
        addon.fetchAdd();
      } else {
        words[14] = request.swapLo;
        words[15] = request.swapHi;
        addon.compareSwap();
      }
    }
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, 0);
    if (!valid) return this.#refused(target, `the key 0x${request.rkey.toString(16)} was revoked`);
    this.#storeOld(request, words[12], words[13]);
    return DONE;
  }

  /** The old value of an atomic goes to the local list. */
  #storeOld(request: SendRequest, lo: number, hi: number): void {
    const old = new Uint8Array(new Int32Array([lo, hi]).buffer);
    let from = 0;
    for (const { region, offset, length } of request.pieces) {
      region.u8.set(old.subarray(from, from + length), region.start + offset);
      from += length;
    }
  }

  /** The region behind the request's key, when it allows the access; else undefined, with the reason in #words. */
  #permitted(request: SendRequest, target: Target, right: number): RemoteRef | undefined {
    const ref = target.peer.resolve(request.rkey);
    const key = `0x${request.rkey.toString(16)}`;
    const offset = ref ? request.remoteAddr - ref.address : 0;
    if (!ref) this.#words = `the key ${key} names no region of ${target.peer.name}: it is wrong, or was revoked`;
    else if (ref.pd !== target.pd) this.#words = `the key ${key} belongs to another protection domain than the peer's queue pair`;
    else if (!(target.access & right)) this.#words = `the peer's queue pair does not allow ${accessWords(right)} (accessFlags)`;
    else if (!(ref.access & right))
      this.#words = `the region of key ${key} allows ${accessWords(ref.access)}, not ${accessWords(right)}`;
    else if (offset < 0 || offset + request.length > ref.length) {
      this.#words = `bytes ${offset} to ${offset + request.length} are outside the region of ${ref.length} bytes behind key ${key}`;
    } else if (right !== ACCESS_REMOTE_READ && !ref.writable) {
      this.#words = `the region of key ${key} is a file mapped for reading: map it with { writable: true }`;
    } else return ref;
    return undefined;
  }

  #refused(target: Target, words?: string): number {
    if (words !== undefined) this.#words = words;
    this.#blame(target, 1);
    return FAILED + STATUS.REM_ACCESS_ERR;
  }

  /** The responder's queue pair goes to ERR too: 1 access error, 2 invalid request. */
  #blame(target: Target, fault: number): void {
    if (this.type !== 'RC') return;
    this.device.blame(target, fault);
  }

  /** UD: what cannot be delivered is lost. */
  #datagram(request: SendRequest, target: Target): void {
    const word = Atomics.load(target.peer.i32, target.at + QP_STATE);
    if (target.peer.dead || (word !== target.word && !target.bind()) || word === 0) return;
    const state = QP_STATES[(target.word & 15) - 1];
    if (
      target.type !== UD ||
      (state !== 'RTR' && state !== 'RTS' && state !== 'SQD' && state !== 'SQE') ||
      target.key !== request.key
    )
      return;
    const position = target.claim(target.peer.owner);
    if (position < 0) return;
    const slot = target.slots + (position & target.mask) * target.stride;
    if (request.length + GRH_BYTES > target.i32[slot + SLOT_LENGTH]) {
      this.#publish(request, target, position, WC_RECV, STATUS.LOC_LEN_ERR, 0);
      return;
    }
    const packet = new SendRequest();
    packet.opcode = request.opcode;
    packet.imm = request.imm;
    packet.solicited = request.solicited;
    packet.snapshot = withRouteHeader(request.snapshot ?? snapshot(request), this.device.gid, target.peer.gid);
    packet.length = packet.snapshot.length;
    const moved = this.#scatter(packet, target, slot, position, 0);
    this.#publish(request, target, position, WC_RECV, moved === DONE ? 0 : STATUS.LOC_PROT_ERR, SLOT_GRH);
  }

  // ---- ends ----

  #complete(request: SendRequest, status: number, causeId: number): void {
    if (status !== 0) this.count(C_ERRORS, 1);
    if (request.signaled || status !== 0) {
      this.#send.push(this, request.sqPosition, request.id, status, request.opcode, status === 0 ? request.length : 0, causeId);
    }
  }

  /** A request failed: its completion says why, everything behind it is flushed, the state is ERR (SQE for UC and UD). */
  #fail(request: SendRequest, status: number): void {
    const words = this.#words;
    this.flushCauseId = this.device.explain(status, this, request.id, request.opcode, words);
    this.#complete(request, status, this.flushCauseId);
    if (this.type === 'UC' || this.type === 'UD') {
      this.fast = 0;
      this.#show('SQE');
      this.enter('SQE');
      for (const later of this.pending.splice(0)) this.#complete(later, STATUS.WR_FLUSH_ERR, this.flushCauseId);
      this.device.settle(this);
      return;
    }
    this.#show('ERR');
    this.enter('ERR');
    this.#flush(this.flushCauseId);
  }

  /** Everything outstanding completes with WR_FLUSH_ERR. */
  #flush(causeId: number): void {
    this.fast = 0;
    this.flushCauseId = causeId;
    if (causeId === 0)
      this.flushCauseId = this.device.explain(STATUS.WR_FLUSH_ERR, this, 0, WC_RECV, 'the queue pair was moved to ERR');
    for (const request of this.pending.splice(0)) this.#complete(request, STATUS.WR_FLUSH_ERR, this.flushCauseId);
    this.inTransfer = false;
    this.device.settle(this);
    if (this.ring.shared) {
      this.device.raise({
        type: 'QP_LAST_WQE_REACHED',
        qpNum: this.qpNum,
        words: 'no more receive requests will be taken for this queue pair',
      });
      return;
    }
    this.ring.flushing = true;
    this.device.wakeLocal(this.#recv);
  }

  /** A receive completed with an error (the sender put it there): the queue pair fails. */
  failed(status: number, causeId: number): void {
    if (this.closed || this.state === 'ERR' || status === STATUS.WR_FLUSH_ERR) return;
    this.#show('ERR');
    this.enter('ERR');
    this.#flush(causeId);
  }

  /** A peer broke a rule on this queue pair. */
  blamed(): void {
    const fault = Atomics.exchange(this.#i32, this.at + QP_REMOTE_FAULT, 0);
    if (fault === 0 || this.closed) return;
    const words =
      fault === 1
        ? `${this.peerName} used a wrong or revoked key, left its region, or lacked a right`
        : `${this.peerName} sent an invalid request`;
    this.device.raise({ type: fault === 1 ? 'QP_ACCESS_ERR' : 'QP_REQ_ERR', qpNum: this.qpNum, peer: this.peerName, words });
    if (this.state === 'ERR') return;
    this.failed(STATUS.REM_ABORT_ERR, this.device.explain(STATUS.WR_FLUSH_ERR, this, 0, WC_RECV, words));
  }

  /** The peer of this queue pair is gone. */
  peerLost(): void {
    if (this.closed || this.state === 'ERR' || this.type === 'UD' || this.type === 'DCI' || this.type === 'DCT') return;
    this.#words = `${this.peerName} ended`;
    this.device.raise({ type: 'QP_FATAL', qpNum: this.qpNum, peer: this.peerName, words: this.#words });
    const first = this.pending.shift();
    this.inTransfer = false;
    if (first) {
      this.#fail(first, STATUS.RETRY_EXC_ERR);
      return;
    }
    this.failed(STATUS.RETRY_EXC_ERR, this.device.explain(STATUS.WR_FLUSH_ERR, this, 0, WC_RECV, this.#words));
  }

  /** A region with posted receives goes: a new epoch makes the sender look again. */
  distrust(region: ShmMemoryRegion): void {
    if (!this.ring.shared && this.ring.distrust(region)) this.#show(this.state);
  }

  // ---- receiving ----

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (let i = 0; i < chain.length; i++) {
      this.checkRecv(i);
      this.ring.post(chain[i], this.pd, i);
    }
  }

  /** Throws when receives cannot be posted now. */
  checkRecv(badIndex: number): void {
    this.checkReceives(badIndex);
    if (this.state === 'RESET') {
      throw new VerbsError('VERBS_ILLEGAL', 'receives can be posted from INIT on: the queue pair is in RESET', { badIndex });
    }
  }

  /** Throws when this queue pair never takes receives. */
  checkReceives(badIndex: number): void {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex });
    if (this.srq) throw new VerbsError('VERBS_ILLEGAL', 'this queue pair receives through its srq: post there', { badIndex });
    if (this.type === 'DCI')
      throw new VerbsError('VERBS_ILLEGAL', 'a DCI only sends: receives are posted on the srq of a DCT', { badIndex });
  }

  prepare(spec: PrepareSpec): PreparedSend {
    return new ShmPreparedSend(this, spec);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    return new ShmPreparedRecv(this, this.ring, region as ShmMemoryRegion);
  }

  // ---- multicast, close ----

  attachMulticast(group: string): void {
    if (this.type !== 'UD') throw new VerbsError('VERBS_ILLEGAL', 'only UD queue pairs join multicast groups');
    if (this.#groups.has(group)) return;
    this.device.multicast.join(group, this.qpNum);
    this.#groups.add(group);
  }

  detachMulticast(group: string): void {
    if (!this.#groups.delete(group)) throw new VerbsError('VERBS_INVALID', `the queue pair is not in group ${group}`);
    this.device.multicast.leave(group, this.qpNum);
  }

  close(): void {
    if (this.closed) return;
    for (const group of this.#groups) this.device.multicast.leave(group, this.qpNum);
    this.closed = true;
    this.fast = 0;
    const life = this.#i32[this.at + QP_LIFE];
    Atomics.store(this.#i32, this.at + QP_STATE, 0);
    this.#i32[this.at + QP_LIFE] = life + 1;
    this.pending.length = 0;
    this.device.settle(this);
    for (let c = 0; c < COUNTERS; c++) this.f64[H_RETIRED_F64 + c] += this.f64[this.counterAt + c];
    this.#send.users--;
    this.#recv.users--;
    this.pd.users--;
    const peer = this.peer;
    if (this.srq) {
      (this.srq as ShmSharedReceiveQueue).users--;
    } else {
      this.#recv.removeRing(this.ring);
      this.device.retireRing(this.ring, this.type === 'RC' || this.type === 'UC' ? peer : undefined);
    }
    this.device.forgetQp(this);
    this.#leave();
  }
}

/** The bytes of a request's list, copied. */
function snapshot(request: SendRequest): Uint8Array {
  const bytes = new Uint8Array(request.length);
  let at = 0;
  for (const { region, offset, length } of request.pieces) {
    bytes.set(region.u8.subarray(region.start + offset, region.start + offset + length), at);
    at += length;
  }
  return bytes;
}

/** Low and high 32 bits. */
function halves(value: bigint): [lo: number, hi: number] {
  const bits = BigInt.asUintN(64, value);
  return [Number(bits & 0xffffffffn) | 0, Number(bits >> 32n) | 0];
}

/** A datagram as the receiver gets it: 40 bytes of route header (version 6, both GIDs), then the payload. */
function withRouteHeader(payload: Uint8Array, source: string, destination: string): Uint8Array {
  const bytes = new Uint8Array(GRH_BYTES + payload.length);
  bytes[0] = 0x60;
  bytes[4] = payload.length >> 8;
  bytes[5] = payload.length & 0xff;
  bytes[6] = 0x1b;
  bytes[7] = 64;
  const put = (gid: string, at: number) =>
    gid.split(':').forEach((group, i) => {
      const value = Number.parseInt(group, 16);
      bytes[at + 2 * i] = value >> 8;
      bytes[at + 2 * i + 1] = value & 0xff;
    });
  put(source, 8);
  put(destination, 24);
  bytes.set(payload, GRH_BYTES);
  return bytes;
}
