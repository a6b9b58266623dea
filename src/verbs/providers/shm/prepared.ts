/**
 * Prepared requests: the hot path. One object is made once; a post makes none.
 *
 * The short way is taken when the queue pair is connected with nothing pending, the peer's state word is unchanged, and the message is one piece of mapped
 * memory. Everything else goes the ordinary way through a SendRequest, with the same result.
 */

import { TSO } from '../../../native/ordering.js';
import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE } from '../../access.js';
import { VerbsError } from '../../errors.js';
import { OPCODES, WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../../opcode.js';
import { checkPrepared, type PreparedSend, type PrepareSpec, rejectRange, rejectRequest } from '../../work-request.js';
import { ShmAddressHandle } from './address-handle.js';
import { checkDatagram } from './checked-request.js';
import type { ShmCompletionQueue } from './completion-queue.js';
import {
  C_BYTES,
  C_OPERATIONS,
  C_RECEIVED,
  IN_ANNOUNCE,
  QP_STATE,
  SLOT_BYTES,
  SLOT_FLAGS,
  SLOT_IMM,
  SLOT_INLINE,
  SLOT_PAYLOAD,
  SLOT_PAYLOAD_BYTES,
  SLOT_QP,
  SLOT_SOLICITED,
  SLOT_SRC_QP,
  SLOT_WITH_IMM,
  SLOT_WORDS,
} from './layout.js';
import { ShmMemoryRegion } from './memory-region.js';
import type { RemoteRef } from './peer.js';
import type { ShmQueuePair } from './queue-pair.js';
import { SendRequest } from './send-request.js';
import type { Target } from './target.js';

const SEND_WITH_IMM = OPCODES.indexOf('SEND_WITH_IMM');
const WRITE = OPCODES.indexOf('RDMA_WRITE');
const WRITE_WITH_IMM = OPCODES.indexOf('RDMA_WRITE_WITH_IMM');
const READ = OPCODES.indexOf('RDMA_READ');
const CMP_AND_SWP = OPCODES.indexOf('ATOMIC_CMP_AND_SWP');
const FETCH_AND_ADD = OPCODES.indexOf('ATOMIC_FETCH_AND_ADD');

/** Up to here a loop over words is faster than a call into the addon. */
const COPY_IN_JS = 128;
/** Offsets below this are small integers of the engine. */
const SMALL_INTEGER = 2 ** 30;
const NO_WORDS = new Int32Array(0);

export class ShmPreparedSend implements PreparedSend {
  imm = 0;
  addLo = 0;
  addHi = 0;
  compareLo = 0;
  compareHi = 0;
  swapLo = 0;
  swapHi = 0;
  readonly #qp: ShmQueuePair;
  readonly #cq: ShmCompletionQueue;
  readonly #opcode: number;
  readonly #local: ShmMemoryRegion;
  readonly #localLength: number;
  readonly #remoteAddr: number;
  readonly #rkey: number;
  readonly #every: number;
  readonly #solicited: boolean;
  readonly #inline: boolean;
  readonly #targets: readonly Target[];
  readonly #key: number;
  #countdown: number;
  /** The remote region as resolved last; checked by its serial at every use. */
  #ref: RemoteRef | undefined;
  /** Whether the checks of #ref that do not change with the offset passed, under which state word. */
  #checkedWord = 0;
  #checkedTarget: Target | undefined;
  /** Where the remote range starts in #ref: a small integer, unlike an address, so that adding to it makes no number on the heap. */
  #start = 0;
  /** The short way for a few words (#moveWords): the target it leads to, and what it needs. */
  #route: Target | undefined;
  #control: Int32Array = NO_WORDS;
  #farWords: Int32Array = NO_WORDS;
  #nearWords: Int32Array = NO_WORDS;
  #stateAt = 0;
  #entryAt = 0;
  #serial = 0;
  #announceAt = 0;
  #announce = 0;
  #farStart = 0;
  #nearStart = 0;
  #lowest = 0;
  #highest = 0;
  readonly #reads: boolean;

  constructor(qp: ShmQueuePair, spec: PrepareSpec) {
    const local = spec.local;
    if (!(local instanceof ShmMemoryRegion) || local.pd !== qp.pd) {
      throw new VerbsError('VERBS_INVALID', 'local must be a region of the same protection domain');
    }
    const every = checkPrepared(qp, spec);
    if (OPCODES.indexOf(spec.opcode) >= READ && !(local.access & ACCESS_LOCAL_WRITE)) {
      throw new VerbsError(
        'VERBS_INVALID',
        `${spec.opcode} writes its result into local, but that region does not allow local write`,
      );
    }
    this.#qp = qp;
    this.#cq = qp.sendCq as ShmCompletionQueue;
    this.#opcode = OPCODES.indexOf(spec.opcode);
    this.#reads = this.#opcode === READ;
    this.#local = local;
    this.#localLength = local.length;
    this.#remoteAddr = spec.remote?.addr ?? 0;
    this.#rkey = spec.remote?.rkey ?? 0;
    this.#every = every;
    this.#countdown = every;
    this.#solicited = spec.solicited ?? false;
    this.#inline = spec.inline ?? false;
    this.#targets = spec.ah instanceof ShmAddressHandle ? spec.ah.targets(spec.remoteQpn ?? 0) : [];
    this.#key = (qp.type === 'UD' ? spec.remoteQkey : spec.dcKey) ?? 0;
  }

  post(offset: number, length: number, id: number, remoteOffset = offset): void {
    const qp = this.#qp;
    if (!(offset >= 0 && length >= 0 && offset + length <= this.#localLength)) rejectRange(offset, length, this.#localLength);
    const target = qp.target;
    if (this.#route === target && target !== undefined && qp.fast === 1 && this.#moveWords(qp, offset, length, remoteOffset)) {
      this.#complete(qp, length, id);
      return;
    }
    if (
      qp.fast === 1 &&
      target !== undefined &&
      this.#local.live &&
      this.#local.u8.length !== 0 &&
      ((qp.sqPosted - qp.sqDone) & 0x7fffffff) < qp.maxSendWr &&
      target.peer.i32[target.at + QP_STATE] === target.word
    ) {
      const opcode = this.#opcode;
      if (opcode <= SEND_WITH_IMM) {
        if (length <= SLOT_PAYLOAD_BYTES && this.#send(qp, target, offset, length)) {
          this.#complete(qp, length, id);
          return;
        }
      } else if (opcode <= READ && length < qp.device.transferThreshold) {
        if (this.#access(qp, target, offset, length, remoteOffset)) {
          this.#complete(qp, length, id);
          return;
        }
      } else if (opcode >= CMP_AND_SWP && length === 8 && this.#atomic(qp, target, offset, remoteOffset)) {
        this.#complete(qp, length, id);
        return;
      }
    }
    this.#long(offset, length, id, remoteOffset);
  }

  doNow(offset: number, length: number, remoteOffset = offset): boolean {
    const qp = this.#qp;
    if (!(offset >= 0 && length >= 0 && offset + length <= this.#localLength)) rejectRange(offset, length, this.#localLength);
    const target = qp.target;
    if (target === undefined || qp.fast !== 1 || length > COPY_IN_JS || (this.#opcode !== WRITE && !this.#reads)) return false;
    if (this.#route !== target || !this.#moveWords(qp, offset, length, remoteOffset)) {
      const isReady = this.#local.live && this.#local.u8.length !== 0 && target.peer.i32[target.at + QP_STATE] === target.word;
      if (!isReady || !this.#access(qp, target, offset, length, remoteOffset)) return false;
    }
    qp.f64[qp.counterAt + C_OPERATIONS] += 1;
    qp.f64[qp.counterAt + C_BYTES] += length;
    return true;
  }

  /**
   * A WRITE or READ of a few aligned words of mapped memory: everything that can be known beforehand stands in fields of this object, so what is left is
   * the announcement, one look whether the key still holds, and the words. False: another way must do it.
   */
  #moveWords(qp: ShmQueuePair, offset: number, length: number, remoteOffset: number): boolean {
    const control = this.#control;
    const near = this.#nearStart + offset;
    const far = this.#farStart + remoteOffset;
    if (
      length > COPY_IN_JS ||
      ((near | far | length) & 3) !== 0 ||
      remoteOffset < this.#lowest ||
      remoteOffset + length > this.#highest ||
      control[this.#stateAt] !== this.#checkedWord ||
      ((qp.sqPosted - qp.sqDone) & 0x7fffffff) >= qp.maxSendWr ||
      !this.#local.live ||
      this.#nearWords.length === 0
    ) {
      return false;
    }
    control[this.#announceAt] = this.#announce;
    const holds = control[this.#entryAt] === this.#serial;
    if (holds) {
      const from = this.#reads ? this.#farWords : this.#nearWords;
      const to = this.#reads ? this.#nearWords : this.#farWords;
      const a = (this.#reads ? far : near) >> 2;
      const b = (this.#reads ? near : far) >> 2;
      const n = length >> 2;
      for (let w = 0; w < n; w++) to[b + w] = from[a + w];
    }
    control[this.#announceAt] = 0;
    return holds;
  }

  /** Counts the operation and makes its completion if it is due. */
  #complete(qp: ShmQueuePair, length: number, id: number): void {
    const position = qp.sqPosted;
    qp.sqPosted = (position + 1) & 0x7fffffff;
    const f64 = qp.f64;
    const at = qp.counterAt;
    f64[at + C_OPERATIONS] += 1;
    f64[at + C_BYTES] += length;
    if (--this.#countdown === 0) {
      this.#countdown = this.#every;
      this.#cq.push(qp, position, id, 0, this.#opcode, length, 0);
    }
  }

  /** A small SEND: the payload rides in the completion entry. False: the ordinary way must do it. */
  #send(qp: ShmQueuePair, target: Target, offset: number, length: number): boolean {
    if (target.shared) return false;
    const position = target.position;
    if (position === target.limit && !this.#refill(qp, target)) return false;
    if (length > target.smallest) return false;
    const i32 = target.i32;
    const slot = target.slots + (position & target.mask) * SLOT_WORDS;
    const local = this.#local;
    const from = local.start + offset;
    const payload = slot + SLOT_PAYLOAD;
    if (((from | length) & 3) === 0) {
      const words = local.i32;
      const at = from >> 2;
      for (let w = 0; w < length >> 2; w++) i32[payload + w] = words[at + w];
    } else {
      const to = payload * 4;
      const bytes = local.u8;
      const u8 = target.u8;
      for (let b = 0; b < length; b++) u8[to + b] = bytes[from + b];
    }
    let bits = SLOT_INLINE;
    if (this.#opcode === SEND_WITH_IMM) {
      bits |= SLOT_WITH_IMM;
      i32[slot + SLOT_IMM] = this.imm;
    }
    if (this.#solicited) bits |= SLOT_SOLICITED;
    i32[slot + SLOT_FLAGS] = WC_RECV | (bits << 16);
    i32[slot + SLOT_BYTES] = length;
    i32[slot + SLOT_SRC_QP] = qp.qpNum;
    i32[slot + SLOT_QP] = target.qpNum;
    if (target.relaxed) i32[slot] = (position + 1) | 0;
    else Atomics.store(i32, slot, (position + 1) | 0);
    target.position = (position + 1) | 0;
    if ((TSO ? target.peer.i32[target.cqAt] : Atomics.load(target.peer.i32, target.cqAt)) !== 0)
      qp.initiator.notify(target, this.#solicited);
    return true;
  }

  /** The known receive requests are used up: looks for more. Nothing received since the last look means that this is a stream. */
  #refill(qp: ShmQueuePair, target: Target): boolean {
    const received = qp.f64[qp.counterAt + C_RECEIVED];
    const streaming = received === target.receivedBefore;
    target.receivedBefore = received;
    return target.refillSoon(streaming);
  }

  /** WRITE and READ of one piece of mapped memory. False: the ordinary way must do it, or say why not. */
  #access(qp: ShmQueuePair, target: Target, offset: number, length: number, remoteOffset: number): boolean {
    const ref = this.#usable(target);
    if (ref === undefined) return false;
    const within = this.#start + remoteOffset;
    if (!(within >= 0 && within + length <= ref.length)) return false;
    let position = 0;
    if (this.#opcode === WRITE_WITH_IMM) {
      if (target.shared) return false;
      position = target.position;
      if (position === target.limit && !this.#refill(qp, target)) return false;
    }
    const peer = target.peer;
    const control = peer.i32;
    const announcement = peer.slot + IN_ANNOUNCE;
    if (target.relaxed) control[announcement] = ref.index + 1;
    else Atomics.store(control, announcement, ref.index + 1);
    if ((TSO ? control[ref.entry] : Atomics.load(control, ref.entry)) !== ref.serial) {
      Atomics.store(control, announcement, 0);
      return false;
    }
    const local = this.#local;
    const near = local.start + offset;
    const far = ref.offset + within;
    if (length <= COPY_IN_JS && ((near | far | length) & 3) === 0) {
      const n = length >> 2;
      const a = near >> 2;
      const b = far >> 2;
      const nearWords = local.i32;
      const farWords = ref.i32;
      if (this.#opcode === READ) for (let w = 0; w < n; w++) nearWords[a + w] = farWords[b + w];
      else for (let w = 0; w < n; w++) farWords[b + w] = nearWords[a + w];
    } else {
      const { command, addon } = qp.device.door;
      const nearAddress = local.addr + offset;
      const farAddress = ref.base + within;
      if (this.#opcode === READ) {
        command[0] = nearAddress;
        command[1] = farAddress;
      } else {
        command[0] = farAddress;
        command[1] = nearAddress;
      }
      command[2] = length;
      addon.copy();
    }
    if (TSO) control[announcement] = 0;
    else Atomics.store(control, announcement, 0);
    if (this.#opcode === WRITE_WITH_IMM) this.#immediate(qp, target, position, length);
    return true;
  }

  #immediate(qp: ShmQueuePair, target: Target, position: number, length: number): void {
    const i32 = target.i32;
    const slot = target.slots + (position & target.mask) * SLOT_WORDS;
    i32[slot + SLOT_FLAGS] = WC_RECV_RDMA_WITH_IMM | ((SLOT_WITH_IMM | (this.#solicited ? SLOT_SOLICITED : 0)) << 16);
    i32[slot + SLOT_BYTES] = length;
    i32[slot + SLOT_IMM] = this.imm;
    i32[slot + SLOT_SRC_QP] = qp.qpNum;
    i32[slot + SLOT_QP] = target.qpNum;
    if (target.relaxed) i32[slot] = (position + 1) | 0;
    else Atomics.store(i32, slot, (position + 1) | 0);
    target.position = (position + 1) | 0;
    if ((TSO ? target.peer.i32[target.cqAt] : Atomics.load(target.peer.i32, target.cqAt)) !== 0)
      qp.initiator.notify(target, this.#solicited);
  }

  #atomic(qp: ShmQueuePair, target: Target, offset: number, remoteOffset: number): boolean {
    const ref = this.#usable(target);
    if (ref === undefined) return false;
    const within = this.#start + remoteOffset;
    const address = ref.base + within;
    const local = this.#local;
    const near = local.start + offset;
    if (!(within >= 0 && within + 8 <= ref.length) || address % 8 !== 0 || (near & 3) !== 0) return false;
    const peer = target.peer;
    const control = peer.i32;
    const announcement = peer.slot + IN_ANNOUNCE;
    if (target.relaxed) control[announcement] = ref.index + 1;
    else Atomics.store(control, announcement, ref.index + 1);
    if ((TSO ? control[ref.entry] : Atomics.load(control, ref.entry)) !== ref.serial) {
      Atomics.store(control, announcement, 0);
      return false;
    }
    const { command, words, addon } = qp.device.door;
    command[0] = address;
    if (this.#opcode === FETCH_AND_ADD) {
      words[10] = this.addLo;
      words[11] = this.addHi;
      addon.fetchAdd();
    } else {
      words[10] = this.compareLo;
      words[11] = this.compareHi;
      words[14] = this.swapLo;
      words[15] = this.swapHi;
      addon.compareSwap();
    }
    if (TSO) control[announcement] = 0;
    else Atomics.store(control, announcement, 0);
    local.i32[near >> 2] = words[12];
    local.i32[(near >> 2) + 1] = words[13];
    return true;
  }

  /** The remote region, when it is mapped here and its rights allow the operation; what does not change is checked once per state word. */
  #usable(target: Target): RemoteRef | undefined {
    const cached = this.#ref;
    if (cached !== undefined && this.#checkedWord === target.word && this.#checkedTarget === target) return cached;
    const ref = target.peer.resolve(this.#rkey);
    const opcode = this.#opcode;
    const right = opcode >= CMP_AND_SWP ? 8 : opcode === READ ? ACCESS_REMOTE_READ : ACCESS_REMOTE_WRITE;
    const fine =
      ref !== undefined &&
      ref.base !== 0 &&
      ref.i32.length > 0 &&
      ref.pd === target.pd &&
      (ref.access & right) !== 0 &&
      (target.access & right) !== 0 &&
      (opcode === READ || ref.writable) &&
      (opcode < READ || target.readResources > 0);
    if (!fine) return undefined;
    this.#ref = ref;
    this.#start = this.#remoteAddr - ref.address;
    this.#checkedWord = target.word;
    this.#checkedTarget = target;
    this.#plan(target, ref);
    return ref;
  }

  /** Lays out the short way for a few words, where it may be taken. */
  #plan(target: Target, ref: RemoteRef): void {
    const { peer } = target;
    const words = this.#opcode === WRITE || this.#opcode === READ;
    this.#route = undefined;
    if (
      !words ||
      !target.relaxed ||
      ref.offset + ref.length > SMALL_INTEGER ||
      this.#local.start + this.#localLength > SMALL_INTEGER
    )
      return;
    this.#route = target;
    this.#control = peer.i32;
    this.#stateAt = target.at + QP_STATE;
    this.#entryAt = ref.entry;
    this.#serial = ref.serial;
    this.#announceAt = peer.slot + IN_ANNOUNCE;
    this.#announce = ref.index + 1;
    this.#farWords = ref.i32;
    this.#farStart = ref.offset + this.#start;
    this.#lowest = -this.#start;
    this.#highest = ref.length - this.#start;
    this.#nearWords = this.#local.i32;
    this.#nearStart = this.#local.start;
  }

  /** The ordinary way. */
  #long(offset: number, length: number, id: number, remoteOffset: number): void {
    const qp = this.#qp;
    this.#ref = undefined;
    this.#route = undefined;
    const request = new SendRequest();
    qp.checkSend(0);
    qp.checkRoom(0);
    if (this.#opcode >= CMP_AND_SWP && (length !== 8 || (this.#remoteAddr + remoteOffset) % 8 !== 0)) {
      rejectRequest(`an atomic works on 8 aligned bytes: got ${length} at remote offset ${remoteOffset}`, 0);
    }
    if (this.#inline && length > qp.maxInline) {
      rejectRequest(`${length} bytes inline, but the queue pair was made with maxInline ${qp.maxInline}`, 0);
    }
    request.opcode = this.#opcode;
    request.id = id;
    request.solicited = this.#solicited;
    request.imm = this.imm | 0;
    request.remoteAddr = this.#remoteAddr + remoteOffset;
    request.rkey = this.#rkey;
    request.length = length;
    request.pieces = length > 0 ? this.#local.spans(offset, length) : [];
    const add = this.#opcode === FETCH_AND_ADD;
    request.addLo = add ? this.addLo : this.compareLo;
    request.addHi = add ? this.addHi : this.compareHi;
    request.swapLo = this.swapLo;
    request.swapHi = this.swapHi;
    request.targets = this.#targets;
    request.key = this.#key | 0;
    if (this.#inline) request.snapshot = this.#local.bytes.slice(offset, offset + length);
    if (qp.type === 'UD') checkDatagram(request);
    request.signaled = --this.#countdown === 0;
    if (request.signaled) this.#countdown = this.#every;
    qp.submit(request);
  }
}
