/**
 * The initiator: plays the NIC for one queue pair. Carries out a request against the memory and the receive ring of its target.
 *
 * ```
 *   SEND     take a receive request of the target ─> fill its buffers ─> publish the completion ─> wake the owner if it sleeps
 *   WRITE    resolve the key, check rights and range ─> announce the key, check that it still holds ─> copy ─> take the announcement back
 *   READ     the same, the other way; atomics the same around one instruction
 * ```
 * What the target did wrong and what we did wrong are told apart as InfiniBand does: a refused access takes both queue pairs to ERR.
 */

import { ACCESS_LOCAL_WRITE, ACCESS_REMOTE_ATOMIC, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, accessWords } from '../../access.js';
import { OPCODES, QP_TYPES, WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../../opcode.js';
import { QP_STATES } from '../../qp-state.js';
import { STATUS } from '../../status.js';
import { GRH_BYTES, writeRouteHeader } from '../../transport/route-header.js';
import {
  C_BYTES,
  C_OPERATIONS,
  C_SYSTEM_CALLS,
  IN_ANNOUNCE,
  IN_ANNOUNCE_TRANSFER,
  KIND_PRIVATE,
  QP_STATE,
  REQUEST_LENGTH,
  REQUEST_SGE,
  REQUEST_SGES,
  SLOT_BYTES,
  SLOT_FLAGS,
  SLOT_GRH,
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
import type { Peer, RemoteRef } from './peer.js';
import type { ShmQueuePair } from './queue-pair.js';
import { SendRequest } from './send-request.js';
import type { Target } from './target.js';

const SEND_WITH_IMM = OPCODES.indexOf('SEND_WITH_IMM');
const WRITE = OPCODES.indexOf('RDMA_WRITE');
const WRITE_WITH_IMM = OPCODES.indexOf('RDMA_WRITE_WITH_IMM');
const READ = OPCODES.indexOf('RDMA_READ');
const FETCH_AND_ADD = OPCODES.indexOf('ATOMIC_FETCH_AND_ADD');

/** Results of carrying out a request: done, a reason to wait, or a completion status plus FAILED. */
export const DONE = 0;
export const NOT_READY = 1;
const NOT_CONNECTED = 2;
export const IN_TRANSFER = 3;
export const FAILED = 16;

/** Next header of an InfiniBand packet. */
const INFINIBAND = 27;
const UD = QP_TYPES.indexOf('UD');
const DCT = QP_TYPES.indexOf('DCT');

export class Initiator {
  /** Why the last request failed. */
  words = '';
  readonly #qp: ShmQueuePair;

  constructor(qp: ShmQueuePair) {
    this.#qp = qp;
  }

  #failed(status: number, words: string): number {
    this.words = words;
    return FAILED + status;
  }

  /** Carries out a request: DONE, a reason to wait, or FAILED plus a status, with the reason in `words`. */
  execute(request: SendRequest): number {
    if (request.fault !== 0) return this.#failed(request.fault, request.faultWords);
    if (this.#qp.type === 'UD') {
      for (const target of request.targets) this.#datagram(request, target);
      this.count(request);
      return DONE;
    }
    let target = this.#qp.target;
    if (this.#qp.type === 'DCI') {
      target = request.targets[0];
      this.#qp.target = target;
      this.#qp.peer = target?.peer;
    }
    if (!target || target.peer.dead) return this.#qp.type === 'UC' ? DONE : target ? this.#lost(target) : NOT_CONNECTED;
    if (!this.#isLinked(target)) return this.#qp.type === 'UC' ? DONE : NOT_CONNECTED;
    if (this.#qp.type === 'DCI' && target.key !== request.key) {
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
    if (result !== DONE && result !== IN_TRANSFER && this.#qp.type === 'UC') {
      // Unreliable: what the responder refuses or cannot take is lost, and the sender does not learn of it.
      return result - FAILED === STATUS.LOC_PROT_ERR ? result : DONE;
    }
    if (result === DONE) {
      this.count(request);
      if (this.#qp.pending.length === 0 && this.#qp.state === 'RTS' && this.#qp.type !== 'DCI') this.#qp.fast = 1;
    }
    return result;
  }

  #lost(target: Target): number {
    return this.#failed(STATUS.RETRY_EXC_ERR, `${target.peer.name} ended`);
  }

  /** Counts a request that was carried out. */
  count(request: SendRequest): void {
    this.#qp.count(C_OPERATIONS, 1);
    this.#qp.count(C_BYTES, request.length);
  }

  /** Whether the target is there and takes requests from this queue pair. */
  #isLinked(target: Target): boolean {
    const word = Atomics.load(target.peer.i32, target.at + QP_STATE);
    if (word === target.word && word !== 0) return true;
    if (!target.bind()) return false;
    const state = QP_STATES[(target.word & 15) - 1];
    const receives = state === 'RTR' || state === 'RTS' || state === 'SQD' || state === 'SQE';
    const { idLo, idHi } = this.#qp.device.control.id;
    const fits =
      this.#qp.type === 'DCI'
        ? target.type === DCT
        : target.isConnectedTo(this.#qp.qpNum, idLo, idHi) && target.type === QP_TYPES.indexOf(this.#qp.type);
    if (receives && fits) return true;
    target.word = 0;
    return false;
  }

  /** Fills the mover's local list. */
  #local(request: SendRequest): void {
    const mover = this.#qp.device.mover;
    mover.clearLocal();
    if (request.snapshot) {
      mover.addLocal(this.#qp.device.scratch(request.snapshot), request.length);
      return;
    }
    for (const { region, offset, length } of request.pieces) mover.addLocal(region.addr + offset, length);
  }

  /** SEND: takes a receive request of the target, fills its buffers, publishes the completion. */
  #deliver(request: SendRequest, target: Target): number {
    const position = this.#nextSlot(target);
    if (position < 0) return NOT_READY;
    const slot = target.slots + (position & target.mask) * SLOT_WORDS;
    const i32 = target.i32;
    const length = request.length;
    const capacity = i32[target.requestAt(position) + REQUEST_LENGTH];
    if (length > capacity) {
      this.#publish(request, target, position, WC_RECV, STATUS.LOC_LEN_ERR, 0);
      return this.#failed(
        STATUS.REM_INV_REQ_ERR,
        `${length} bytes were sent, but the receive request of ${this.#qp.peerName} holds ${capacity}: post larger buffers`,
      );
    }
    if (length <= SLOT_PAYLOAD_BYTES) {
      if (!this.#isReceivable(target, position)) return this.#unreceivable(request, target, position);
      this.#payload(request, target, slot);
      this.#publish(request, target, position, WC_RECV, 0, SLOT_INLINE);
      return DONE;
    }
    const moved = this.#scatter(request, target, position, 0);
    if (moved === IN_TRANSFER) return IN_TRANSFER;
    if (moved !== DONE) return this.#unreceivable(request, target, position);
    this.#publish(request, target, position, WC_RECV, 0, 0);
    return DONE;
  }

  /** Whether the buffers of a receive request are registered. */
  #isReceivable(target: Target, position: number): boolean {
    const request = target.requestAt(position);
    for (let s = 0; s < target.i32[request + REQUEST_SGES]; s++) {
      if (!target.peer.resolve(target.i32[request + REQUEST_SGE + s * 4 + 3] >>> 0)) return false;
    }
    return true;
  }

  #unreceivable(request: SendRequest, target: Target, position: number): number {
    this.#publish(request, target, position, WC_RECV, STATUS.LOC_PROT_ERR, 0);
    return this.#failed(STATUS.REM_OP_ERR, `the receive buffer of ${this.#qp.peerName} is not registered any more`);
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
  #scatter(request: SendRequest, target: Target, position: number, skip: number): number {
    const { peer, i32, f64 } = target;
    const { mover } = this.#qp.device;
    const posted = target.requestAt(position);
    const count = i32[posted + REQUEST_SGES];
    this.#local(request);
    mover.clearRemote();
    let left = request.length;
    let passed = skip;
    let ref: RemoteRef | undefined;
    for (let s = 0; s < count && left > 0; s++) {
      const at = posted + REQUEST_SGE + s * 4;
      const available = i32[at + 2] - Math.min(passed, i32[at + 2]);
      const address = f64[at >> 1] + (i32[at + 2] - available);
      passed -= i32[at + 2] - available;
      const n = Math.min(left, available);
      if (n === 0) continue;
      const next = peer.resolve(i32[at + 3] >>> 0);
      if (!next || !(next.access & ACCESS_LOCAL_WRITE)) return FAILED;
      if (ref && next !== ref) return this.#scatterApart(request, target, position, skip);
      ref = next;
      mover.addRemote(peer, next, address, n);
      left -= n;
    }
    if (!ref) return DONE;
    if (request.length >= this.#qp.device.transferThreshold && this.#transfer(request, target, ref, true, position))
      return IN_TRANSFER;
    return this.#guarded(peer, ref, true);
  }

  /** The buffers of the receive request lie in several regions: one guarded copy each. */
  #scatterApart(request: SendRequest, target: Target, position: number, skip: number): number {
    const { peer, i32, f64 } = target;
    const { mover } = this.#qp.device;
    const bytes = request.bytes();
    const staging = this.#qp.device.arena.take(bytes.length);
    staging.segment.u8.set(bytes, staging.offset);
    const posted = target.requestAt(position);
    try {
      let from = 0;
      let passed = skip;
      for (let s = 0; s < i32[posted + REQUEST_SGES] && from < bytes.length; s++) {
        const at = posted + REQUEST_SGE + s * 4;
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
      this.#qp.device.arena.give(staging);
    }
    return DONE;
  }

  /** Announces the key, checks that it still holds, moves, takes the announcement back. DONE, or FAILED when it was revoked or refused. */
  #guarded(peer: Peer, ref: RemoteRef, write: boolean): number {
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, ref.index + 1);
    let result = FAILED;
    if (Atomics.load(peer.i32, ref.entry) === ref.serial) {
      const { mover } = this.#qp.device;
      result = mover.move(peer.pid, write) === 0 ? DONE : FAILED;
      this.#qp.count(C_SYSTEM_CALLS, mover.systemCalls);
    }
    Atomics.store(peer.i32, peer.slot + IN_ANNOUNCE, 0);
    return result;
  }

  /** Hands the prepared move to the transfer thread. False when it has too many parts. `position`: -1, or the slot to complete at the end. */
  #transfer(request: SendRequest, target: Target, ref: RemoteRef, write: boolean, position: number): boolean {
    const { peer } = target;
    const entry = this.#qp.device.entry;
    let slotAddress = 0;
    if (position >= 0) {
      const slot = target.slots + (position & target.mask) * SLOT_WORDS;
      slotAddress = target.ringAddress + slot * 4;
      const withImm = request.opcode === SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM;
      const code = request.opcode >= WRITE ? WC_RECV_RDMA_WITH_IMM : WC_RECV;
      entry[0] = (position + 1) | 0;
      entry[SLOT_FLAGS] = code | (((withImm ? SLOT_WITH_IMM : 0) | (request.solicited ? SLOT_SOLICITED : 0)) << 16);
      entry[SLOT_BYTES] = request.length;
      entry[SLOT_IMM] = request.imm;
      entry[SLOT_SRC_QP] = this.#qp.qpNum;
      entry[SLOT_QP] = target.qpNum;
    }
    return this.#qp.device.startTransfer(this.#qp, request, {
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
    const slot = target.slots + (position & target.mask) * SLOT_WORDS;
    const withImm = request.opcode === SEND_WITH_IMM || request.opcode === WRITE_WITH_IMM;
    const flags = bits | (withImm ? SLOT_WITH_IMM : 0) | (request.solicited ? SLOT_SOLICITED : 0);
    i32[slot + SLOT_FLAGS] = opcode | (status << 8) | (flags << 16);
    i32[slot + SLOT_BYTES] = status === 0 ? request.length + (bits & SLOT_GRH ? GRH_BYTES : 0) : 0;
    i32[slot + SLOT_IMM] = request.imm;
    i32[slot + SLOT_SRC_QP] = this.#qp.qpNum;
    i32[slot + SLOT_QP] = target.qpNum;
    Atomics.store(i32, slot, (position + 1) | 0);
    if (!target.shared) target.position = (position + 1) | 0;
    if (Atomics.load(target.peer.i32, target.cqAt) !== 0) this.notify(target, request.solicited || status !== 0);
  }

  /** The receiver's queue is armed or keeps a bitmap. */
  notify(target: Target, solicited: boolean): void {
    const { command, addon } = this.#qp.device.door;
    command[0] = target.peer.control.address + target.cqAt * 4;
    command[1] = target.cqRing;
    command[2] = solicited ? 1 : 0;
    command[3] = target.peer.bell;
    addon.notify();
    if (command[4] === 1) this.#qp.count(C_SYSTEM_CALLS, 1);
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
      const { mover } = this.#qp.device;
      mover.clearRemote();
      if (!mover.addRemote(peer, ref, request.remoteAddr, request.length))
        return this.#refused(target, 'a part of the indexed region is gone');
      if (
        request.length >= this.#qp.device.transferThreshold &&
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
    const { mover, door } = this.#qp.device;
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
    if (!ref) this.words = `the key ${key} names no region of ${target.peer.name}: it is wrong, or was revoked`;
    else if (ref.pd !== target.pd) this.words = `the key ${key} belongs to another protection domain than the peer's queue pair`;
    else if (!(target.access & right)) this.words = `the peer's queue pair does not allow ${accessWords(right)} (accessFlags)`;
    else if (!(ref.access & right))
      this.words = `the region of key ${key} allows ${accessWords(ref.access)}, not ${accessWords(right)}`;
    else if (offset < 0 || offset + request.length > ref.length) {
      this.words = `bytes ${offset} to ${offset + request.length} are outside the region of ${ref.length} bytes behind key ${key}`;
    } else if (right !== ACCESS_REMOTE_READ && !ref.writable) {
      this.words = `the region of key ${key} is a file mapped for reading: map it with { writable: true }`;
    } else return ref;
    return undefined;
  }

  #refused(target: Target, words?: string): number {
    if (words !== undefined) this.words = words;
    this.#blame(target, 1);
    return FAILED + STATUS.REM_ACCESS_ERR;
  }

  /** The responder's queue pair goes to ERR too: 1 access error, 2 invalid request. */
  #blame(target: Target, fault: number): void {
    if (this.#qp.type !== 'RC') return;
    this.#qp.device.blame(target, fault);
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
    if (request.length + GRH_BYTES > target.i32[target.requestAt(position) + REQUEST_LENGTH]) {
      this.#publish(request, target, position, WC_RECV, STATUS.LOC_LEN_ERR, 0);
      return;
    }
    const packet = new SendRequest();
    packet.opcode = request.opcode;
    packet.imm = request.imm;
    packet.solicited = request.solicited;
    packet.snapshot = withRouteHeader(request.bytes(), this.#qp.device.peers.self, target.peer);
    packet.length = packet.snapshot.length;
    const moved = this.#scatter(packet, target, position, 0);
    this.#publish(request, target, position, WC_RECV, moved === DONE ? 0 : STATUS.LOC_PROT_ERR, SLOT_GRH);
  }
}

/** A datagram as the receiver gets it: behind a route header. */
function withRouteHeader(payload: Uint8Array, source: Peer, destination: Peer): Uint8Array {
  const bytes = new Uint8Array(GRH_BYTES + payload.length);
  writeRouteHeader(bytes, payload.length, INFINIBAND, source.gidBytes, destination.gidBytes);
  bytes.set(payload, GRH_BYTES);
  return bytes;
}
