/**
 * The queue pair of a UCX device. Requests go out as active messages; the target's device carries them out when it makes progress, in the order they were
 * posted. Small payloads travel in the message, large ones by UCX's rendezvous straight into the target's memory.
 *
 *     post ── DATA ──> inbound: copy or fetch, then completion        WRITE with a completion: ── ACK ──> done
 *     post ── READ, ATOMIC ──> inbound ── REPLY with the bytes ──> done
 *
 * A SEND or a WRITE with immediate is complete when its memory may be used again; that it arrived is told by what the peer does then.
 */

import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE } from '../../access.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion } from '../../memory-region.js';
import { opcodeOf, WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../../opcode.js';
import type { QpInit } from '../../protection-domain.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import { type QpAddress, QueuePair } from '../../queue-pair.js';
import { STATUS, statusName } from '../../status.js';
import { QueuedSend } from '../../transport/prepared-send.js';
import { QueuedReceive } from '../../transport/receive-poster.js';
import { SendFlag, SendWork } from '../../transport/send-queue.js';
import { WC_WITH_IMM } from '../../work-completions.js';
import {
  type PreparedRecv,
  type PreparedSend,
  type PrepareSpec,
  type RecvWorkRequest,
  rejectRequest,
  type SendWorkRequest,
  type Sge,
  sendFault,
} from '../../work-request.js';
import type { UcxCompletionQueue } from './completion-queue.js';
import type { UcxDevice } from './device.js';
import { Inbound } from './inbound.js';
import type { UcxProtectionDomain } from './protection-domain.js';
import { ReceiveList } from './receive-list.js';
import type { UcxMemoryRegion } from './region.js';
import { DATA_INLINE, INLINE_BYTES } from './rings.js';
import {
  addressOfWords,
  FLAG_ACK,
  FLAG_SOLICITED,
  highWord,
  KIND_ACK,
  KIND_ATOMIC,
  KIND_DATA,
  KIND_READ,
  KIND_REPLY,
  W_ADDR_HI,
  W_ADDR_LO,
  W_IMM,
  W_KEY,
  W_KIND,
  W_LENGTH,
  W_QP,
  W_SOURCE,
} from './wire.js';

const OP_SEND_IMM = 1;
const OP_WRITE = 2;
const OP_WRITE_IMM = 3;
const OP_READ = 4;
const OP_ADD = 6;
const LOCAL = 1;
const REPLY = 2;

export class UcxQueuePair extends QueuePair {
  readonly device: UcxDevice;
  readonly pd: UcxProtectionDomain;
  readonly qpNum: number;
  /** The device's number of the way to the peer, -1 for none. */
  endpoint = -1;
  private readonly mask: number;
  private readonly ids: Float64Array;
  private readonly opcodes: Uint8Array;
  private readonly signals: Uint8Array;
  private readonly states: Uint8Array;
  private readonly lengths: Uint32Array;
  /** Where the result of a READ or an atomic goes; and memory that must stay until UCX has it. */
  private readonly into: (readonly Sge[] | undefined)[] = [];
  private readonly held: (unknown | undefined)[] = [];
  private head = 0;
  private tail = 0;
  /** READs and atomics under way. */
  private reads = 0;
  private readonly fenced: SendWork[] = [];
  private readonly receives: ReceiveList;
  private readonly inbounds: Inbound[] = [];
  private readonly work: SendWork;
  private failure: { status: number; words: string; id: number } | undefined;
  private isClosed = false;

  constructor(pd: UcxProtectionDomain, init: QpInit) {
    super(init);
    if (init.type !== 'RC') throw new VerbsError('VERBS_UNSUPPORTED', `a UCX device has RC queue pairs, no ${String(init.type)}`);
    this.pd = pd;
    this.device = pd.device;
    let size = 1;
    while (size < this.maxSendWr) size *= 2;
    this.mask = size - 1;
    this.ids = new Float64Array(size);
    this.opcodes = new Uint8Array(size);
    this.signals = new Uint8Array(size);
    this.states = new Uint8Array(size);
    this.lengths = new Uint32Array(size);
    this.receives = new ReceiveList(this.maxRecvWr, this.maxRecvSge);
    this.work = new SendWork(this.maxSendSge);
    this.qpNum = this.device.adopt(this);
    for (const cq of this.cqs) cq.users++;
  }

  private get cqs(): [UcxCompletionQueue, UcxCompletionQueue] {
    return [this.sendCq as UcxCompletionQueue, this.recvCq as UcxCompletionQueue];
  }

  address(): QpAddress {
    const { device, qpNum, type } = this;
    return { v: 1, provider: 'ucx', av: { gid: device.target }, qpNum, psn: 0, mtu: 4096, type };
  }

  get peerName(): string {
    const { destQpNum } = this.attributes;
    return destQpNum === undefined ? 'unknown' : `UCX peer, QP ${destQpNum}`;
  }

  // ---- states ----

  protected transition(_from: QpState, to: QpState, changed: QpAttributes): void {
    this.assertOpen();
    if (changed.av) this.endpoint = this.device.endpointTo(changed.av.gid);
    if (to === 'ERR') this.flush();
    if (to === 'RESET') this.clear();
  }

  private clear(): void {
    this.head = this.tail;
    this.reads = 0;
    this.fenced.length = 0;
    this.into.length = 0;
    this.held.length = 0;
    this.receives.clear();
    for (const inbound of this.inbounds.splice(0)) inbound.drop(this.device.rings);
    this.failure = undefined;
    if (this.endpoint >= 0) this.device.leaveEndpoint(this.endpoint);
    this.endpoint = -1;
  }

  /** The connection is no more: everything outstanding ends. */
  fail(status: number, words: string): void {
    if (this.isClosed || this.state === 'RESET' || this.state === 'ERR') return;
    const first = this.head;
    this.enter('ERR');
    if (first !== this.tail) {
      this.failure = { status, words, id: this.ids[first & this.mask] };
      this.finish(first, status, words);
      this.head = first + 1;
    }
    this.flush();
  }

  stop(): void {
    if (this.isClosed || this.device.isClosed || this.state === 'RESET' || this.state === 'ERR') return;
    this.enter('ERR');
    this.flush();
  }

  private flush(): void {
    for (; this.head !== this.tail; this.head++) this.finish(this.head, STATUS.WR_FLUSH_ERR);
    this.reads = 0;
    this.fenced.length = 0;
    for (const inbound of this.inbounds.splice(0)) inbound.drop(this.device.rings);
    while (this.receives.count > 0) this.receiveFailed(STATUS.WR_FLUSH_ERR);
  }

  private receiveFailed(status: number): void {
    const id = this.receives.take();
    const cq = this.recvCq as UcxCompletionQueue;
    const cause = cq.causeOf(status, WC_RECV, id, this.qpNum, this.peerName, this.failure?.words);
    cq.push(id, status, WC_RECV, 0, 0, this.qpNum, 0, 0, true, cause);
  }

  /** A request is over: its completion, if it asked for one or failed. */
  private finish(seq: number, status: number, words?: string): void {
    const at = seq & this.mask;
    this.held[at] = undefined;
    this.into[at] = undefined;
    const cq = this.sendCq as UcxCompletionQueue;
    if (status === STATUS.SUCCESS) {
      if (this.signals[at]) cq.push(this.ids[at], 0, this.opcodes[at], this.lengths[at], 0, this.qpNum, 0, 0, false);
      return;
    }
    const isFlush = status === STATUS.WR_FLUSH_ERR;
    const first = isFlush ? this.failure : undefined;
    const said = first ? `request ${first.id} failed with ${statusName(first.status)} before this one: ${first.words}` : words;
    const cause = cq.causeOf(status, this.opcodes[at], first ? first.id : this.ids[at], this.qpNum, this.peerName, said);
    cq.push(this.ids[at], status, this.opcodes[at], 0, 0, this.qpNum, 0, 0, true, cause);
    this.device.errors++;
  }

  // ---- sending ----

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    this.assertOpen();
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    for (const [i, one] of chain.entries()) {
      this.assertSends(i);
      const fault = sendFault(this.type, one, this);
      if (fault) rejectRequest(fault, i);
      const w = this.work;
      const sgl = one.sgl ?? [];
      w.opcode = opcodeOf(one.opcode);
      w.flags =
        (one.signaled === false ? 0 : SendFlag.signaled) |
        (one.fence ? SendFlag.fence : 0) |
        (one.solicited ? SendFlag.solicited : 0);
      w.id = one.id ?? 0;
      w.immediate = one.imm ?? 0;
      w.remoteAddress = one.remoteAddr ?? 0;
      w.remoteKey = (one.rkey ?? 0) >>> 0;
      const swap = BigInt.asUintN(64, (one.opcode === 'ATOMIC_FETCH_AND_ADD' ? one.add : one.swap) ?? 0n);
      const compare = BigInt.asUintN(64, one.compare ?? 0n);
      w.swapHi = Number(swap >> 32n);
      w.swapLo = Number(swap & 0xffffffffn);
      w.compareHi = Number(compare >> 32n);
      w.compareLo = Number(compare & 0xffffffffn);
      w.sgeCount = sgl.length;
      for (const [s, { addr, length, lkey }] of sgl.entries()) {
        w.sgeAddress[s] = addr;
        w.sgeLength[s] = length;
        w.sgeKey[s] = lkey;
      }
      w.inlineData = one.inlineData ?? (one.inline ? this.gathered(w) : null);
      this.postWork(w, i);
    }
  }

  /** Posts what a `SendWork` holds. */
  postWork(w: SendWork, index: number): void {
    this.assertSends(index);
    if (this.tail - this.head >= this.maxSendWr) {
      throw new VerbsError('VERBS_QUEUE_FULL', `the send queue holds ${this.maxSendWr} requests: wait for a completion`, {
        badIndex: index,
      });
    }
    const seq = this.tail++;
    const at = seq & this.mask;
    let length = w.inlineData ? w.inlineData.length : 0;
    if (!w.inlineData) for (let s = 0; s < w.sgeCount; s++) length += w.sgeLength[s];
    this.ids[at] = w.id;
    this.opcodes[at] = w.opcode;
    this.signals[at] = this.sqSigAll || w.flags & SendFlag.signaled ? 1 : 0;
    this.lengths[at] = length;
    this.states[at] = LOCAL;
    this.device.operations++;
    this.device.bytes += length;
    if (this.state === 'ERR') {
      this.head = seq + 1;
      this.finish(seq, STATUS.WR_FLUSH_ERR);
      return;
    }
    if (this.fenced.length > 0 || (w.flags & SendFlag.fence && this.reads > 0)) this.fenced.push(copyOf(w, seq));
    else this.start(w, seq, length);
  }

  /** The doorbell: there is none. */
  kick(): void {}

  private start(w: SendWork, seq: number, length: number): void {
    const at = seq & this.mask;
    const { rings } = this.device;
    const h = rings.header;
    const { opcode } = w;
    const isReply = opcode >= OP_READ;
    const needsAck = opcode === OP_WRITE && this.signals[at] === 1;
    h[W_QP] = this.attributes.destQpNum as number;
    h[W_KEY] = w.remoteKey;
    h[W_ADDR_LO] = w.remoteAddress;
    h[W_ADDR_HI] = highWord(w.remoteAddress);
    h[W_LENGTH] = length;
    h[W_SOURCE] = this.qpNum;
    let result: number;
    if (isReply) {
      const list: Sge[] = [];
      for (let s = 0; s < w.sgeCount; s++) {
        if (!this.local(w.sgeKey[s], w.sgeAddress[s], w.sgeLength[s], ACCESS_LOCAL_WRITE)) {
          this.badKey(seq);
          return;
        }
        list.push({ addr: w.sgeAddress[s], length: w.sgeLength[s], lkey: w.sgeKey[s] });
      }
      this.into[at] = list;
      this.states[at] = REPLY;
      this.reads++;
      h[W_KIND] = (opcode === OP_READ ? KIND_READ : KIND_ATOMIC) | (opcode << 8);
      h[W_IMM] = seq;
      const operands = rings.operandWords;
      operands[0] = opcode === OP_ADD ? w.swapLo : w.compareLo;
      operands[1] = opcode === OP_ADD ? w.swapHi : w.compareHi;
      operands[2] = w.swapLo;
      operands[3] = w.swapHi;
      result = rings.sendInline(this.endpoint, 0, opcode === OP_READ ? 0 : 16, false);
      if (result > 0) this.device.ignore(result);
    } else {
      const flags = (w.flags & SendFlag.solicited ? FLAG_SOLICITED : 0) | (needsAck ? FLAG_ACK : 0);
      h[W_KIND] = KIND_DATA | (opcode << 8) | (flags << 16);
      h[W_IMM] = needsAck ? seq : w.immediate;
      if (needsAck) this.states[at] = LOCAL | REPLY;
      result = this.sendData(w, seq, length);
      if (result > 0) this.device.track(result, this, seq);
      else this.states[at] &= ~LOCAL;
    }
    if (result < 0) {
      if (result !== BAD_KEY) this.fail(STATUS.RETRY_EXC_ERR, this.device.statusWords(result));
      return;
    }
    if (this.states[at] === 0) this.retire();
  }

  /** Sends the data of a request behind the header; as the rings' commands return. */
  private sendData(w: SendWork, seq: number, length: number): number {
    const { rings } = this.device;
    const bytes = w.inlineData;
    if (bytes === null && w.sgeCount === 1) {
      const region = this.local(w.sgeKey[0], w.sgeAddress[0], length, 0);
      if (region === undefined) {
        this.badKey(seq);
        return BAD_KEY;
      }
      if (length > INLINE_BYTES) return rings.sendAt(this.endpoint, 0, w.sgeAddress[0], length, false);
      const from = w.sgeAddress[0] - region.addr;
      const to = rings.inlineAt(0);
      const target = rings.commandBytes;
      const source = region.bytes;
      if (length <= 64) for (let i = 0; i < length; i++) target[to + i] = source[from + i];
      else target.set(source.subarray(from, from + length), to);
      return rings.sendInline(this.endpoint, 0, length, false);
    }
    const all = bytes ?? this.gathered(w);
    if (all === null) {
      this.badKey(seq);
      return BAD_KEY;
    }
    if (length <= INLINE_BYTES) {
      rings.commandBytes.set(all, rings.inlineAt(0));
      return rings.sendInline(this.endpoint, 0, length, false);
    }
    const kept = Uint8Array.from(all);
    this.held[seq & this.mask] = kept;
    return rings.sendAt(this.endpoint, 0, this.device.addressOf(kept), length, false);
  }

  private badKey(seq: number): void {
    // Earlier requests keep their places: they end first, with a flush.
    for (; this.head !== seq; this.head++) this.finish(this.head, STATUS.WR_FLUSH_ERR);
    this.fail(STATUS.LOC_PROT_ERR, 'a scatter/gather element names memory that is not registered here, or is out of range');
  }

  private local(key: number, addr: number, length: number, right: number): UcxMemoryRegion | undefined {
    const region = this.device.regions.get(key);
    if (region === undefined || region.pd !== this.pd || (region.access & right) !== right) return undefined;
    return addr >= region.addr && addr + length <= region.addr + region.length ? region : undefined;
  }

  private gathered(w: SendWork): Uint8Array | null {
    let length = 0;
    for (let s = 0; s < w.sgeCount; s++) length += w.sgeLength[s];
    const bytes = new Uint8Array(length);
    let at = 0;
    for (let s = 0; s < w.sgeCount; s++) {
      const region = this.local(w.sgeKey[s], w.sgeAddress[s], w.sgeLength[s], 0);
      if (region === undefined) return null;
      const from = w.sgeAddress[s] - region.addr;
      bytes.set(region.bytes.subarray(from, from + w.sgeLength[s]), at);
      at += w.sgeLength[s];
    }
    return bytes;
  }

  /** UCX is done with the memory of a request. */
  sent(seq: number, status: number): void {
    if (((seq - this.head) | 0) < 0 || ((this.tail - seq) | 0) <= 0) return;
    if (status !== 0) {
      this.fail(STATUS.RETRY_EXC_ERR, this.device.statusWords(status));
      return;
    }
    this.states[seq & this.mask] &= ~LOCAL;
    this.retire();
  }

  /** The peer has answered: an ACK. */
  answered(seq: number, status: number): void {
    if (status !== STATUS.SUCCESS) {
      // The failed request first, so that its completion has the status.
      if (((seq - this.head) | 0) >= 0 && ((this.tail - seq) | 0) > 0) {
        for (; this.head !== seq; this.head++) this.finish(this.head, STATUS.SUCCESS);
      }
      this.fail(status, 'the target refused the request: wrong or revoked key, range outside its region, or a right is missing');
      return;
    }
    this.replied(seq);
  }

  /** A reply is complete. */
  replied(seq: number): void {
    if (((seq - this.head) | 0) < 0 || ((this.tail - seq) | 0) <= 0) return;
    const at = seq & this.mask;
    this.states[at] &= ~REPLY;
    if (this.opcodes[at] >= OP_READ) {
      this.reads--;
      if (this.reads === 0 && this.fenced.length > 0) {
        for (const w of this.fenced.splice(0)) this.start(w, w.destination, this.lengths[w.destination & this.mask]);
      }
    }
    this.retire();
  }

  private retire(): void {
    while (this.head !== this.tail && this.states[this.head & this.mask] === 0) this.finish(this.head++, STATUS.SUCCESS);
  }

  /** Where the answer to request `seq` goes, or undefined when it is over. */
  replyTarget(seq: number): readonly Sge[] | undefined {
    return ((seq - this.head) | 0) < 0 || ((this.tail - seq) | 0) <= 0 ? undefined : this.into[seq & this.mask];
  }

  // ---- what arrives ----

  /** A request of the peer. `words` is the header at `at`; small data lies in `bytes` at `dataAt`. */
  arrived(
    words: Int32Array,
    at: number,
    dataKind: number,
    data: number,
    length: number,
    bytes: Uint8Array,
    dataAt: number,
  ): void {
    const { rings } = this.device;
    const state = super.state;
    if (state !== 'RTS' && state !== 'RTR' && state !== 'SQD') {
      rings.discard(dataKind, data);
      return;
    }
    if (this.inbounds.length === 0 && dataKind === DATA_INLINE && this.writeAtOnce(words, at, length, bytes, dataAt)) return;
    const inbound = new Inbound(words, at, dataKind, data, length, bytes, dataAt);
    this.inbounds.push(inbound);
    this.pump();
  }

  /** The ordinary case, a small WRITE with or without immediate data and nothing before it, without an object. False: not this case. */
  private writeAtOnce(words: Int32Array, at: number, length: number, bytes: Uint8Array, dataAt: number): boolean {
    const word = words[at + W_KIND];
    const opcode = (word >> 8) & 255;
    if ((word & 255) !== KIND_DATA || (opcode !== OP_WRITE && opcode !== OP_WRITE_IMM)) return false;
    const hasImm = opcode === OP_WRITE_IMM;
    if (hasImm && this.receives.count === 0) return false;
    if (length > 0) {
      const address = addressOfWords(words, at);
      const region = this.remote(words[at + W_KEY] >>> 0, address, length, ACCESS_REMOTE_WRITE);
      if (region === undefined) return false;
      const to = address - region.addr;
      const target = region.bytes;
      if (length <= 64) for (let i = 0; i < length; i++) target[to + i] = bytes[dataAt + i];
      else target.set(bytes.subarray(dataAt, dataAt + length), to);
    }
    const flags = word >>> 16;
    if (hasImm) {
      const cq = this.recvCq as UcxCompletionQueue;
      const isSolicited = (flags & FLAG_SOLICITED) !== 0;
      const imm = words[at + W_IMM] >>> 0;
      cq.push(
        this.receives.take(),
        0,
        WC_RECV_RDMA_WITH_IMM,
        length,
        imm,
        this.qpNum,
        words[at + W_SOURCE],
        WC_WITH_IMM,
        isSolicited,
      );
    }
    if (flags & FLAG_ACK) this.answer(words[at + W_IMM], STATUS.SUCCESS);
    return true;
  }

  /** Carries on what arrived, in order. */
  private pump(): void {
    const list = this.inbounds;
    for (let i = 0; i < list.length; i++) {
      const inbound = list[i];
      if (inbound.isStarted) {
        if (i === 0 && inbound.isDone) {
          list.shift();
          i = -1;
          this.concluded(inbound);
          continue;
        }
        continue;
      }
      if (i > 0 && !(inbound.isRendezvous && list[i - 1].isRendezvous)) break;
      if (!this.carryOut(inbound)) break;
      if (super.state === 'ERR') return;
      i = -1;
    }
  }

  /** Starts a request of the peer. False: it waits for a receive request. */
  private carryOut(inbound: Inbound): boolean {
    const { words, length } = inbound;
    const kind = words[W_KIND] & 255;
    const opcode = (words[W_KIND] >> 8) & 255;
    inbound.isStarted = true;
    if (kind === KIND_READ) {
      this.serveRead(inbound);
      return true;
    }
    if (kind === KIND_ATOMIC) {
      this.serveAtomic(inbound, opcode);
      return true;
    }
    const isWrite = opcode === OP_WRITE || opcode === OP_WRITE_IMM;
    if (opcode !== OP_WRITE && this.receives.count === 0) {
      inbound.isStarted = false;
      return false;
    }
    if (isWrite) {
      const address = addressOfWords(words, 0);
      const region = length === 0 ? undefined : this.remote(words[W_KEY] >>> 0, address, length, ACCESS_REMOTE_WRITE);
      if (length > 0 && region === undefined) {
        this.refuse(inbound, STATUS.REM_ACCESS_ERR);
        return true;
      }
      if (opcode === OP_WRITE_IMM) inbound.receiveId = this.receives.take();
      if (region !== undefined) this.move(inbound, region, address);
      else inbound.isDone = true;
      return true;
    }
    if (length > this.receives.firstLength) {
      this.refuse(inbound, STATUS.REM_INV_REQ_ERR, STATUS.LOC_LEN_ERR);
      return true;
    }
    const sgl = this.receives.firstList();
    for (const { addr, length: room, lkey } of sgl) {
      if (!this.local(lkey, addr, room, ACCESS_LOCAL_WRITE)) {
        this.refuse(inbound, STATUS.REM_OP_ERR, STATUS.LOC_PROT_ERR);
        return true;
      }
    }
    inbound.receiveId = this.receives.take();
    this.scatter(inbound, sgl);
    return true;
  }

  /** Brings data to one place. */
  private move(inbound: Inbound, region: UcxMemoryRegion, address: number): void {
    const { rings } = this.device;
    const { length } = inbound;
    if (inbound.bytes !== undefined) {
      region.bytes.set(inbound.bytes, address - region.addr);
      inbound.isDone = true;
      return;
    }
    const result = rings.take(inbound.dataKind, inbound.data, address, length);
    inbound.data = 0;
    if (result > 0) this.device.track(result, { sent: (_, status) => this.fetched(inbound, status) }, 0);
    else if (result === 0) inbound.isDone = true;
    else this.fail(STATUS.RETRY_EXC_ERR, this.device.statusWords(result));
  }

  private fetched(inbound: Inbound, status: number): void {
    if (status !== 0) {
      this.fail(STATUS.RETRY_EXC_ERR, this.device.statusWords(status));
      return;
    }
    inbound.after?.();
    inbound.isDone = true;
    this.pump();
  }

  /** Brings data to a list of places: by way of a copy when there are several. */
  private scatter(inbound: Inbound, sgl: readonly Sge[]): void {
    const used = sgl.filter(({ length }) => length > 0);
    if (inbound.length === 0) {
      inbound.isDone = true;
      return;
    }
    if (used[0].length >= inbound.length) {
      this.move(inbound, this.device.regions.get(used[0].lkey) as UcxMemoryRegion, used[0].addr);
      return;
    }
    const all = inbound.bytes ?? new Uint8Array(inbound.length);
    const spread = () => {
      let from = 0;
      for (const { addr, length, lkey } of used) {
        const count = Math.min(length, all.length - from);
        const region = this.device.regions.get(lkey);
        if (region && count > 0) region.bytes.set(all.subarray(from, from + count), addr - region.addr);
        from += count;
      }
    };
    if (inbound.bytes !== undefined) {
      spread();
      inbound.isDone = true;
      return;
    }
    const result = this.device.rings.take(inbound.dataKind, inbound.data, this.device.addressOf(all), inbound.length);
    inbound.data = 0;
    if (result > 0) {
      inbound.after = spread;
      this.device.track(result, { sent: (_, status) => this.fetched(inbound, status) }, 0);
    } else {
      spread();
      inbound.isDone = true;
    }
  }

  /** Data is where it belongs: the completion, and the answer if the peer waits for one. */
  private concluded({ words, length, receiveId }: Inbound): void {
    if ((words[W_KIND] & 255) !== KIND_DATA) return;
    const opcode = (words[W_KIND] >> 8) & 255;
    const flags = words[W_KIND] >>> 16;
    if (opcode !== OP_WRITE) {
      const hasImm = opcode === OP_SEND_IMM || opcode === OP_WRITE_IMM;
      (this.recvCq as UcxCompletionQueue).push(
        receiveId,
        0,
        opcode === OP_WRITE_IMM ? WC_RECV_RDMA_WITH_IMM : WC_RECV,
        length,
        hasImm ? words[W_IMM] >>> 0 : 0,
        this.qpNum,
        words[W_SOURCE],
        hasImm ? WC_WITH_IMM : 0,
        (flags & FLAG_SOLICITED) !== 0,
      );
    }
    if (flags & FLAG_ACK) this.answer(words[W_IMM], STATUS.SUCCESS);
  }

  private answer(seq: number, status: number): void {
    const h = this.device.rings.header;
    h[W_KIND] = KIND_ACK;
    h[W_QP] = this.attributes.destQpNum as number;
    h[W_IMM] = seq;
    h[W_KEY] = status;
    this.device.control(this.endpoint);
  }

  /** The peer's request cannot be carried out: it learns it, and this end stops too. */
  private refuse(inbound: Inbound, theirs: number, ours: number = STATUS.WR_FLUSH_ERR): void {
    inbound.drop(this.device.rings);
    const isAck = (inbound.words[W_KIND] >>> 16) & FLAG_ACK || (inbound.words[W_KIND] & 255) !== KIND_DATA;
    this.answer(isAck ? inbound.words[W_IMM] : -1, theirs);
    const at = this.inbounds.indexOf(inbound);
    if (at >= 0) this.inbounds.splice(at, 1);
    if (ours !== STATUS.WR_FLUSH_ERR && this.receives.count > 0) this.receiveFailed(ours);
    this.device.raise({
      type: theirs === STATUS.REM_ACCESS_ERR ? 'QP_ACCESS_ERR' : 'QP_REQ_ERR',
      qpNum: this.qpNum,
      peer: this.peerName,
      words: 'the peer sent a request that this queue pair refused; it went to the error state',
    });
    this.stop();
  }

  private remote(key: number, address: number, length: number, right: number): UcxMemoryRegion | undefined {
    const region = this.device.regions.get(key);
    const allowed = this.attributes.accessFlags ?? 0;
    if (region === undefined || region.pd !== this.pd || !(region.access & right) || !(allowed & right)) return undefined;
    return address >= region.addr && address + length <= region.addr + region.length ? region : undefined;
  }

  private serveRead(inbound: Inbound): void {
    const { words } = inbound;
    const { rings } = this.device;
    const address = addressOfWords(words, 0);
    const length = words[W_LENGTH] >>> 0;
    const region = length === 0 ? undefined : this.remote(words[W_KEY] >>> 0, address, length, ACCESS_REMOTE_READ);
    if (length > 0 && region === undefined) {
      this.refuse(inbound, STATUS.REM_ACCESS_ERR);
      return;
    }
    const h = rings.header;
    h[W_KIND] = KIND_REPLY;
    h[W_QP] = this.attributes.destQpNum as number;
    h[W_IMM] = words[W_IMM];
    let result: number;
    if (length <= INLINE_BYTES) {
      if (region)
        rings.commandBytes.set(region.bytes.subarray(address - region.addr, address - region.addr + length), rings.inlineAt(0));
      result = rings.sendInline(this.endpoint, 0, length, false);
    } else {
      result = rings.sendAt(this.endpoint, 0, address, length, false);
    }
    if (result > 0) this.device.ignore(result, region);
    inbound.isDone = true;
  }

  private serveAtomic(inbound: Inbound, opcode: number): void {
    const { words, bytes } = inbound;
    const address = addressOfWords(words, 0);
    const region = this.remote(words[W_KEY] >>> 0, address, 8, ACCESS_REMOTE_ATOMIC);
    const offset = region === undefined ? 0 : address - region.addr;
    if (region?.words === undefined || offset % 8 !== 0 || bytes === undefined) {
      this.refuse(inbound, STATUS.REM_ACCESS_ERR);
      return;
    }
    const operands = new BigUint64Array(Uint8Array.from(bytes).buffer);
    const index = offset >> 3;
    const old =
      opcode === OP_ADD
        ? Atomics.add(region.words, index, operands[0])
        : Atomics.compareExchange(region.words, index, operands[0], operands[1]);
    const { rings } = this.device;
    const h = rings.header;
    h[W_KIND] = KIND_REPLY;
    h[W_QP] = this.attributes.destQpNum as number;
    h[W_IMM] = words[W_IMM];
    rings.operandWords[0] = Number(old & 0xffffffffn);
    rings.operandWords[1] = Number(old >> 32n);
    const result = rings.sendInline(this.endpoint, 0, 8, false);
    if (result > 0) this.device.ignore(result);
    inbound.isDone = true;
  }

  // ---- receiving ----

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertReceives();
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    for (const [i, { sgl = [], id = 0 }] of chain.entries()) {
      if (sgl.length > this.maxRecvSge)
        rejectRequest(`${sgl.length} scatter elements, but the queue was made for ${this.maxRecvSge}`, i);
      if (!Number.isSafeInteger(id)) rejectRequest(`id must be a safe integer: got ${String(id)}`, i);
      if (!this.receives.add(id, sgl)) this.receivesFull(i);
    }
    this.received();
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertReceives();
    if (!this.receives.addOne(id, addr, length, lkey)) this.receivesFull(0);
    this.received();
  }

  private receivesFull(badIndex: number): never {
    throw new VerbsError('VERBS_QUEUE_FULL', `the receive queue holds ${this.maxRecvWr} requests: wait for a completion`, {
      badIndex,
    });
  }

  private received(): void {
    if (super.state === 'ERR') while (this.receives.count > 0) this.receiveFailed(STATUS.WR_FLUSH_ERR);
    else if (this.inbounds.length > 0) this.pump();
  }

  prepare(spec: PrepareSpec): PreparedSend {
    this.assertOpen();
    return new QueuedSend(this, spec);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  attachMulticast(): void {
    throw new VerbsError('VERBS_UNSUPPORTED', 'a UCX device has no multicast');
  }

  detachMulticast(): void {
    throw new VerbsError('VERBS_UNSUPPORTED', 'a UCX device has no multicast');
  }

  private assertOpen(): void {
    if (this.isClosed || this.device.isClosed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex: 0 });
  }

  private assertSends(index: number): void {
    this.assertOpen();
    const { state } = this;
    if (state === 'RESET' || state === 'INIT' || state === 'RTR') {
      throw new VerbsError('VERBS_ILLEGAL', `sends are posted in RTS, not in ${state}: connect the queue pair first`, {
        badIndex: index,
      });
    }
  }

  private assertReceives(): void {
    this.assertOpen();
    if (super.state === 'RESET') {
      throw new VerbsError('VERBS_ILLEGAL', 'receives are posted from INIT on, not in RESET', { badIndex: 0 });
    }
  }

  close(): void {
    if (this.isClosed) return;
    if (!this.device.isClosed) {
      this.clear();
      this.device.release(this);
    }
    this.isClosed = true;
    for (const cq of this.cqs) cq.users--;
    this.pd.releaseQp(this);
  }

  /** Closes without asking: the device is going. */
  shut(): void {
    this.isClosed = true;
  }
}

/** No status of UCX. */
const BAD_KEY = -1000;

function copyOf(w: SendWork, seq: number): SendWork {
  const copy = new SendWork(Math.max(1, w.sgeCount));
  Object.assign(copy, w, { sgeAddress: w.sgeAddress.slice(), sgeLength: w.sgeLength.slice(), sgeKey: w.sgeKey.slice() });
  copy.destination = seq; // the number of the request: UCX has no address handles
  copy.inlineData = w.inlineData === null ? null : Uint8Array.from(w.inlineData);
  return copy;
}
