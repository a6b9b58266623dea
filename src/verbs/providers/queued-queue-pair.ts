/**
 * A queue pair that the transport of this package works off: requests are checked and put into its queues. Whose thread sends, and what a state
 * means there, is the provider's.
 */

import { VerbsError } from '../errors.js';
import type { MemoryRegion } from '../memory-region.js';
import { opcodeOf } from '../opcode.js';
import { type ConnectAttributes, type QpAddress, QueuePair } from '../queue-pair.js';
import { QueuedSend } from '../transport/prepared-send.js';
import { QueuedReceive, type ReceivePoster } from '../transport/receive-poster.js';
import type { DomainMemory } from '../transport/region-table.js';
import { SendFlag, type SendQueue, SendWork } from '../transport/send-queue.js';
import {
  type PreparedRecv,
  type PreparedSend,
  type PrepareSpec,
  type RecvWorkRequest,
  rejectRequest,
  type SendWorkRequest,
  sendFault,
} from '../work-request.js';
import { assertTakesReceives, assertTakesSends } from './posting.js';
import { QueuedAddressHandle } from './queued-address-handle.js';

export abstract class QueuedQueuePair extends QueuePair {
  abstract override readonly device: QueuePair['device'] & { readonly isClosed: boolean };
  abstract readonly pd: { readonly memory: DomainMemory };
  protected abstract readonly sendQueue: SendQueue;
  protected abstract readonly poster: ReceivePoster;
  /** Receives come from a shared queue. */
  protected abstract readonly isShared: boolean;
  protected isClosed = false;
  private readonly work = new SendWork(this.maxSendSge);

  /** Has the transport send what was posted. */
  abstract kick(): void;
  /** Receive requests were posted: in the error state they have to be flushed. */
  protected abstract receivesPosted(): void;

  /**
   * Connects as connection management means it: there, the PSN that a side names is the one it expects, so the peer's is the first that
   * this side sends, and this side's own is the first that it takes.
   */
  async connectManaged(peer: QpAddress, options?: ConnectAttributes): Promise<void> {
    const expected = this.psn;
    this.psn = peer.psn;
    try {
      await this.connect({ ...peer, psn: expected }, options);
    } finally {
      this.psn = expected;
    }
  }

  postSend(wr: SendWorkRequest | readonly SendWorkRequest[]): void {
    this.assertOpen();
    const chain = Array.isArray(wr) ? (wr as readonly SendWorkRequest[]) : [wr as SendWorkRequest];
    try {
      for (let i = 0; i < chain.length; i++) this.postOne(chain[i], i);
    } finally {
      this.kick();
    }
  }

  private postOne(wr: SendWorkRequest, index: number): void {
    this.assertSends(index);
    const fault = sendFault(this.type, wr, this);
    if (fault) rejectRequest(fault, index);
    const w = this.work;
    const sgl = wr.sgl ?? [];
    w.opcode = opcodeOf(wr.opcode);
    w.flags =
      (wr.signaled === false ? 0 : SendFlag.signaled) | (wr.fence ? SendFlag.fence : 0) | (wr.solicited ? SendFlag.solicited : 0);
    w.id = wr.id ?? 0;
    w.immediate = wr.imm ?? 0;
    w.remoteAddress = wr.remoteAddr ?? 0;
    w.remoteKey = (wr.rkey ?? 0) >>> 0;
    const swap = BigInt.asUintN(64, (wr.opcode === 'ATOMIC_FETCH_AND_ADD' ? wr.add : wr.swap) ?? 0n);
    const compare = BigInt.asUintN(64, wr.compare ?? 0n);
    w.swapHi = Number(swap >> 32n);
    w.swapLo = Number(swap & 0xffffffffn);
    w.compareHi = Number(compare >> 32n);
    w.compareLo = Number(compare & 0xffffffffn);
    w.destQp = wr.remoteQpn ?? 0;
    w.destKey = ((this.type === 'DCI' ? wr.dcKey : wr.remoteQkey) ?? 0) >>> 0;
    if (wr.ah) w.destination = this.destinationOf(wr.ah, index);
    w.sgeCount = sgl.length;
    for (let s = 0; s < sgl.length; s++) {
      w.sgeAddress[s] = sgl[s].addr;
      w.sgeLength[s] = sgl[s].length;
      w.sgeKey[s] = sgl[s].lkey;
    }
    w.inlineData = wr.inlineData ?? (wr.inline ? this.gatherInline(w) : null);
    this.postWork(w, index);
  }

  /** Posts what a `SendWork` holds, in a state that takes sends. The caller kicks. */
  postWork(work: SendWork, index: number): void {
    this.assertSends(index);
    if (this.sqSigAll) work.flags |= SendFlag.signaled;
    if (this.sendQueue.push(work)) return;
    throw new VerbsError('VERBS_QUEUE_FULL', `the send queue holds ${this.maxSendWr} requests: wait for a completion`, {
      badIndex: index,
    });
  }

  /** The bytes of the list, taken now; null when a key is wrong: then the request fails as one that is not inline. */
  private gatherInline(w: SendWork): Uint8Array | null {
    const bytes = new Uint8Array(this.maxInline);
    let at = 0;
    for (let s = 0; s < w.sgeCount; s++) {
      if (!this.pd.memory.read(w.sgeKey[s], w.sgeAddress[s], w.sgeLength[s], bytes, at)) return null;
      at += w.sgeLength[s];
    }
    return bytes.subarray(0, at);
  }

  postRecv(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    this.assertReceives();
    try {
      this.poster.post(wr);
    } finally {
      this.receivesPosted();
    }
  }

  postRange(addr: number, length: number, lkey: number, id: number): void {
    this.assertReceives();
    this.poster.postOne(addr, length, lkey, id);
    this.receivesPosted();
  }

  prepare(spec: PrepareSpec): PreparedSend {
    this.assertOpen();
    if (spec.ah) this.destinationOf(spec.ah, 0);
    return new QueuedSend(this, spec);
  }

  prepareRecv(region: MemoryRegion): PreparedRecv {
    this.assertOpen();
    return new QueuedReceive(this, region);
  }

  /** Throws VERBS_CLOSED. */
  protected assertOpen(): void {
    if (this.isClosed || this.device.isClosed) throw new VerbsError('VERBS_CLOSED', 'the queue pair is closed', { badIndex: 0 });
  }

  /** The transport's number for where an address handle points. Throws VERBS_INVALID for a closed or foreign one. */
  private destinationOf(ah: unknown, index: number): number {
    if (!(ah instanceof QueuedAddressHandle) || ah.isClosed || ah.device !== this.device) {
      rejectRequest('ah is closed, or is no address handle of this device: make one with pd.createAh', index);
    }
    return ah.destination;
  }

  private assertSends(index: number): void {
    this.assertOpen();
    assertTakesSends(this.type, super.state, index);
  }

  private assertReceives(): void {
    this.assertOpen();
    assertTakesReceives(this.type, super.state, this.isShared);
  }
}
