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

import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { OPCODES, WC_RECV } from '../../opcode.js';
import { ackTimeoutUs, type QpAttributes, type QpState, RNR_TIMER_US } from '../../qp-state.js';
import { type QpInit, QueuePair } from '../../queue-pair.js';
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
import { assertTakesReceives, assertTakesSends } from '../posting.js';
import { checkedRequest } from './checked-request.js';
import type { ShmCompletionQueue } from './completion-queue.js';
import type { ShmDevice } from './device.js';
import { DONE, FAILED, IN_TRANSFER, Initiator, NOT_READY } from './initiator.js';
import { C_ERRORS } from './layout.js';
import type { ShmMemoryRegion } from './memory-region.js';
import type { Peer } from './peer.js';
import { ShmPreparedSend } from './prepared.js';
import { ShmPreparedRecv } from './prepared-recv.js';
import type { ShmProtectionDomain } from './protection-domain.js';
import { QueuePairEntry } from './queue-pair-entry.js';
import { ReceiveRing } from './receive-ring.js';
import type { SendRequest } from './send-request.js';
import type { ShmSharedReceiveQueue } from './shared-receive-queue.js';
import { Target } from './target.js';

const SEND_WITH_IMM = OPCODES.indexOf('SEND_WITH_IMM');
const WRITE_WITH_IMM = OPCODES.indexOf('RDMA_WRITE_WITH_IMM');

export class ShmQueuePair extends QueuePair {
  readonly device: ShmDevice;
  readonly pd: ShmProtectionDomain;
  readonly qpNum: number;
  readonly ring: ReceiveRing;
  readonly initiator: Initiator = new Initiator(this);
  /** Where this queue pair's counters are. */
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
  readonly #entry: QueuePairEntry;
  readonly #send: ShmCompletionQueue;
  readonly #recv: ShmCompletionQueue;
  /** In SQD: requests from this position on wait for RTS; whether to tell when the ones before are done. */
  #drainTo = 0;
  #tellDrained = false;
  readonly #groups = new Set<string>();

  constructor(pd: ShmProtectionDomain, init: QpInit) {
    super(init);
    const device = pd.device;
    this.device = device;
    this.pd = pd;
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
    this.#entry = new QueuePairEntry(device.i32, device.f64, this.qpNum, {
      type: this.type,
      pd: pd.number,
      dcKey: this.dcKey,
      recvCq: this.#recv.number,
      ring: this.ring,
      cqRing: this.#recv.addRing(this.ring),
    });
    this.counterAt = this.#entry.counterAt;
    pd.adopt(this);
    device.noteQp(this);
  }

  /** How messages name the other side. */
  get peerName(): string {
    if (!this.peer) return 'unknown';
    return `${this.peer.name}, QP ${this.target?.qpNum ?? '?'}`;
  }

  count(counter: number, by: number): void {
    this.f64[this.counterAt + counter] += by;
  }

  protected transition(from: QpState, to: QpState, attributes: QpAttributes): void {
    this.#assertOpen(0);
    this.fast = 0;
    if (to === 'RTR' && attributes.av && attributes.destQpNum !== undefined) {
      const peer = this.device.peers.of(attributes.av.gid);
      this.peer = peer;
      this.device.peers.retain(peer);
      this.target = new Target(peer, attributes.destQpNum);
    }
    this.#entry.describe(attributes);
    if (to === 'RESET') {
      this.#leave();
      this.pending.length = 0;
      this.inTransfer = false;
      this.sqPosted = 0;
      this.sqDone = 0;
      this.flushCauseId = 0;
      this.#entry.reset();
      if (!this.ring.shared) this.ring.reset();
      this.device.settle(this);
      return;
    }
    this.#entry.show(to);
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
    if (this.peer && (this.type === 'RC' || this.type === 'UC')) this.device.peers.release(this.peer);
    this.peer = undefined;
    this.target = undefined;
  }

  // ---- posting ----

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    for (let i = 0; i < chain.length; i++) {
      const one = chain[i];
      this.checkSend(i);
      const fault = sendFault(this.type, one, this);
      if (fault) rejectRequest(fault, i);
      this.checkRoom(i);
      this.submit(checkedRequest(this, one));
    }
  }

  /** Throws when sends cannot be posted in this state. */
  checkSend(badIndex: number): void {
    this.#assertOpen(badIndex);
    assertTakesSends(this.type, this.state, badIndex);
  }

  #assertOpen(badIndex: number): void {
    if (this.closed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex });
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
    const result = this.initiator.execute(request);
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
      const result = this.initiator.execute(request);
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
      this.initiator.count(request);
      if (request.opcode <= SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM) this.#advancePosition();
      this.#complete(request, 0, 0);
    } else {
      this.initiator.words =
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
      this.initiator.words = `${this.peerName} ended`;
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
      this.initiator.words = notReady
        ? `${this.peerName} had no receive request posted in ${rnrRetry} retries of ${periodMs} ms: post receives earlier, or raise rnrRetry (7 is endless)`
        : `${this.peerName} did not answer in ${retryCnt} retries of ${periodMs.toFixed(1)} ms: is its queue pair connected to QP ${this.qpNum} of this process, and in RTR or RTS?`;
    }
    const at = this.pending.indexOf(request);
    if (at >= 0) this.pending.splice(at, 1);
    this.#fail(request, notReady && !this.peer?.dead ? STATUS.RNR_RETRY_EXC_ERR : STATUS.RETRY_EXC_ERR);
    return true;
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
    const words = this.initiator.words;
    this.flushCauseId = this.device.explain(status, this, request.id, request.opcode, words);
    this.#complete(request, status, this.flushCauseId);
    if (this.type === 'UC' || this.type === 'UD') {
      this.fast = 0;
      this.#entry.show('SQE');
      this.enter('SQE');
      for (const later of this.pending.splice(0)) this.#complete(later, STATUS.WR_FLUSH_ERR, this.flushCauseId);
      this.device.settle(this);
      return;
    }
    this.#entry.show('ERR');
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
    this.#entry.show('ERR');
    this.enter('ERR');
    this.#flush(causeId);
  }

  /** A peer broke a rule on this queue pair. */
  blamed(): void {
    const fault = this.#entry.takeFault();
    if (fault === 0 || this.closed) return;
    const words =
      fault === 1
        ? `${this.peerName} used a wrong or revoked key, left its region, or lacked a right`
        : `${this.peerName} sent an invalid request`;
    this.device.raise({ type: fault === 1 ? 'QP_ACCESS_ERR' : 'QP_REQ_ERR', qpNum: this.qpNum, peer: this.peerName, words });
    if (this.state === 'ERR') return;
    this.failed(STATUS.REM_ABORT_ERR, this.device.explain(STATUS.WR_FLUSH_ERR, this, 0, WC_RECV, words));
  }

  /** To the error state from outside: a connection ended. */
  stop(): void {
    if (!this.closed && this.state !== 'ERR' && this.state !== 'RESET') this.modify('ERR');
  }

  /** The peer of this queue pair is gone. */
  peerLost(): void {
    if (this.closed || this.state === 'ERR' || this.type === 'UD' || this.type === 'DCI' || this.type === 'DCT') return;
    this.initiator.words = `${this.peerName} ended`;
    this.device.raise({ type: 'QP_FATAL', qpNum: this.qpNum, peer: this.peerName, words: this.initiator.words });
    const first = this.pending.shift();
    this.inTransfer = false;
    if (first) {
      this.#fail(first, STATUS.RETRY_EXC_ERR);
      return;
    }
    this.failed(STATUS.RETRY_EXC_ERR, this.device.explain(STATUS.WR_FLUSH_ERR, this, 0, WC_RECV, this.initiator.words));
  }

  /** A region with posted receives goes: a new epoch makes the sender look again. */
  distrust(region: ShmMemoryRegion): void {
    if (!this.ring.shared && this.ring.distrust(region)) this.#entry.show(this.state);
  }

  // ---- receiving ----

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (let i = 0; i < chain.length; i++) {
      this.checkRecv(i);
      this.ring.post(chain[i], this.pd, i);
    }
  }

  /** Throws when receives cannot be posted in a state. */
  checkRecv(badIndex: number, state = this.state): void {
    this.#assertOpen(badIndex);
    assertTakesReceives(this.type, state, this.srq !== undefined, badIndex);
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
    this.#entry.close();
    this.pending.length = 0;
    this.device.settle(this);
    this.pd.release(this);
    const peer = this.peer;
    if (!this.srq) {
      this.#recv.removeRing(this.ring);
      this.device.retireRing(this.ring, this.type === 'RC' || this.type === 'UC' ? peer : undefined);
    }
    this.device.forgetQp(this);
    this.#leave();
  }
}
