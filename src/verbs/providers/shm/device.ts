/**
 * An shm device: one context of this thread. It owns the control segment, the arena and the peers, and carries deferred work forward.
 *
 * ```
 *   poll ──> attention changed, or work pending? ──> progress: deaths, faults blamed on us, overruns, finished transfers, retries
 *   bell (a pipe in the event loop) ──> progress ──> wake the queues that were armed
 * ```
 */

import { type Door, openDoor } from '../../../native/door.js';
import type { CompletionQueue, CompletionThread, CqInit, WaitOptions } from '../../completion-queue.js';
import type { AsyncEvent, Capabilities, Counters, DeviceOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import type { RemoteRegion } from '../../memory-region.js';
import { COMPLETION_OPCODES } from '../../opcode.js';
import type { ProtectionDomain } from '../../protection-domain.js';
import type { QpAddress } from '../../queue-pair.js';
import { statusMeaning, statusName } from '../../status.js';
import { systemError } from '../../system-error.js';
import { CauseLog } from '../cause-log.js';
import { nameOf } from '../opening.js';
import { ProvidedDevice } from '../provided-device.js';
import { Arena, type Block } from './arena.js';
import { Buffers } from './buffers.js';
import { MTU } from './checked-request.js';
import { ShmCompletionQueue } from './completion-queue.js';
import { ShmCompletionThread } from './completion-thread.js';
import { ConnectionManager } from './connection-manager.js';
import { Control, IndexPool } from './control.js';
import {
  C_BYTES,
  C_COPIED_OUT,
  C_ERRORS,
  C_OPERATIONS,
  C_SYSTEM_CALLS,
  CQ_DEPTH,
  CQ_MAX,
  H_ACKNOWLEDGED,
  H_ATTENTION,
  H_BELL,
  H_CQ_HIGH,
  H_QP_HIGH,
  H_RETIRED_F64,
  H_SEGMENT_BYTES_F64,
  H_STATE,
  KIND_MAPPED,
  QP_MAX,
  QP_REMOTE_FAULT,
  REGION_MAX,
  STATE_LIVE,
} from './layout.js';
import type { ShmMemoryRegion } from './memory-region.js';
import { Mover } from './mover.js';
import { Multicast } from './multicast.js';
import type { Peer } from './peer.js';
import { Peers } from './peers.js';
import { ShmProtectionDomain } from './protection-domain.js';
import type { ShmQueuePair } from './queue-pair.js';
import type { ReceiveRing } from './receive-ring.js';
import type { SendRequest } from './send-request.js';
import type { ShmSharedReceiveQueue } from './shared-receive-queue.js';
import type { Target } from './target.js';
import { type TransferJob, Transfers } from './transfers.js';

const CAPABILITIES: Capabilities = {
  qpTypes: ['RC', 'UC', 'UD', 'DCI', 'DCT'],
  maxInline: 4096,
  maxSge: 64,
  maxMessage: 2 ** 31 - 1,
  maxQpWr: 65536,
  mtu: MTU,
  atomics: 'global',
  srq: true,
  multicast: true,
  dc: true,
  onDemand: true,
  umr: true,
  memoryWindows: false,
  privateMemory: true,
  mappedFiles: true,
  directAccess: true,
  peerDeath: true,
  virtualTime: false,
};

const KNOWN_OPTIONS = ['name', 'transferThreshold', 'segmentDirectory'];
const SCRATCH_BYTES = MTU + 64;

/** A ring of a closed queue that a sender may still be writing into. */
interface Limbo {
  readonly ring: ReceiveRing;
  readonly peer: Peer | undefined;
  readonly attention: number;
}

export class ShmDevice extends ProvidedDevice {
  readonly provider = 'shm';
  readonly name: string;
  readonly gid: string;
  readonly capabilities = CAPABILITIES;
  readonly door: Door;
  readonly control: Control;
  readonly i32: Int32Array;
  readonly f64: Float64Array;
  readonly arena: Arena;
  readonly memory: Buffers;
  readonly mover: Mover;
  readonly multicast: Multicast;
  readonly peers: Peers;
  readonly transferThreshold: number;
  readonly regionPool = new IndexPool(REGION_MAX, 'memory regions');
  readonly qpPool = new IndexPool(QP_MAX, 'queue pairs', 2); // 0 and 1 are the management queue pairs of a port
  readonly cqPool = new IndexPool(CQ_MAX, 'completion queues');
  readonly regions = new Map<number, ShmMemoryRegion>();
  readonly queuePairs = new Map<number, ShmQueuePair>();
  readonly completionQueues = new Set<ShmCompletionQueue>();
  readonly srqs = new Set<ShmSharedReceiveQueue>();
  readonly causes = new CauseLog();
  protected readonly connections = new ConnectionManager(this);
  /** Words of a completion entry for the transfer thread. */
  readonly entry = new Int32Array(16);
  readonly bellFd: number;
  /** Attention value that was looked after. */
  attention = 0;
  /** Not 0 while something waits to be carried forward: pending requests, transfers, rings in limbo. */
  busy = 0;
  readonly #bell: number;
  readonly #unsettled = new Set<ShmQueuePair>();
  readonly #limbo: Limbo[] = [];
  readonly #transfers: Transfers;
  readonly #threads = new Set<ShmCompletionThread>();
  readonly #scratch: Block;
  #pdNumber = 0;
  #holds = 0;
  #ticker: NodeJS.Timeout | undefined;
  #progressing = false;

  constructor(options: DeviceOptions) {
    super();
    this.name = nameOf(options, 'shm', KNOWN_OPTIONS);
    const threshold = options.transferThreshold ?? 2 << 20;
    if (!(threshold >= 4096))
      throw new VerbsError('VERBS_INVALID', `transferThreshold must be at least 4096 bytes: got ${String(threshold)}`);
    this.transferThreshold = threshold;
    this.door = openDoor();
    this.control = new Control(this.door, this.name);
    this.gid = this.control.gid;
    this.i32 = this.control.segment.i32;
    this.f64 = this.control.segment.f64;
    const bell = this.door.addon.bellOpen(() => this.#rang());
    if (typeof bell === 'number') {
      this.control.close(this.door);
      throw systemError(bell, 'cannot make a pipe');
    }
    this.#bell = bell[0];
    this.bellFd = bell[1];
    this.i32[H_BELL] = this.bellFd;
    this.arena = new Arena(this.door, this.control, options.segmentDirectory);
    this.mover = new Mover(this.door);
    this.multicast = new Multicast(this);
    this.#transfers = new Transfers(this);
    this.peers = new Peers(this);
    this.memory = new Buffers(this);
    try {
      this.#scratch = this.arena.take(SCRATCH_BYTES);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Address of a word of the control segment. */
  addressOfWord(word: number): number {
    return this.control.segment.address + word * 4;
  }

  // ---- objects ----

  allocPd(): ProtectionDomain {
    this.assertOpen();
    return new ShmProtectionDomain(this, ++this.#pdNumber);
  }

  createCq(init: CqInit = {}): CompletionQueue {
    this.assertOpen();
    return new ShmCompletionQueue(this, init);
  }

  createCompletionThread(options: { cpu?: number; numaNode?: number } = {}): CompletionThread {
    this.assertOpen();
    const thread = new ShmCompletionThread(this, options);
    this.#threads.add(thread);
    return thread;
  }

  noteCq(cq: ShmCompletionQueue): void {
    this.completionQueues.add(cq);
    this.i32[H_CQ_HIGH] = this.cqPool.high;
  }

  forgetCq(cq: ShmCompletionQueue): void {
    this.completionQueues.delete(cq);
    this.i32[cq.at + CQ_DEPTH] = 0;
    this.cqPool.give(cq.number);
  }

  noteQp(qp: ShmQueuePair): void {
    this.queuePairs.set(qp.qpNum, qp);
    this.i32[H_QP_HIGH] = this.qpPool.high;
  }

  forgetQp(qp: ShmQueuePair): void {
    this.queuePairs.delete(qp.qpNum);
    this.qpPool.give(qp.qpNum);
  }

  /** A region goes: rings that hold receive requests over it stop trusting their senders' short way. */
  distrust(region: ShmMemoryRegion): void {
    for (const qp of this.queuePairs.values()) qp.distrust(region);
  }

  /** A live region by its local key. */
  findRegion(lkey: number): ShmMemoryRegion | undefined {
    const region = this.regions.get(lkey >>> 8);
    return region && region.lkey === lkey && region.live ? region : undefined;
  }

  /** Keeps the cause of an error under a number. */
  explain(status: number, qp: ShmQueuePair, wrId: number, opcode: number, words = ''): number {
    return this.causes.note({
      status: statusName(status),
      qpNum: qp.qpNum,
      wrId,
      opcode: COMPLETION_OPCODES[opcode],
      peer: qp.peerName,
      words: words === '' ? statusMeaning(status) : words,
    });
  }

  // ---- memory ----

  /** Address of a block that holds these bytes until the next call. */
  scratch(bytes: Uint8Array): number {
    this.#scratch.segment.u8.set(bytes, this.#scratch.offset);
    return this.#scratch.segment.address + this.#scratch.offset;
  }

  directAccess(address: QpAddress, remote: RemoteRegion): Uint8Array {
    const peer = this.peers.of(address.av.gid);
    const ref = peer.resolve(remote.rkey);
    const offset = ref ? remote.addr - ref.address : 0;
    if (!ref || offset < 0 || offset + remote.length > ref.length) {
      throw new VerbsError(
        'VERBS_INVALID',
        `the key 0x${remote.rkey.toString(16)} does not cover these ${remote.length} bytes of ${peer.name}`,
      );
    }
    if (ref.kind !== KIND_MAPPED) {
      throw new VerbsError(
        'VERBS_UNSUPPORTED',
        'only arena and file memory can be mapped: the peer must use device.alloc or device.mapFile',
      );
    }
    this.peers.retain(peer); // until the device closes
    return ref.u8.subarray(ref.offset + offset, ref.offset + offset + remote.length);
  }

  // ---- peers ----

  /** Tells a peer's queue pair that a request of ours broke a rule. */
  blame(target: Target, fault: number): void {
    const { i32, bell } = target.peer;
    Atomics.store(i32, target.at + QP_REMOTE_FAULT, fault);
    Atomics.add(i32, H_ATTENTION, 1);
    this.door.command[0] = bell;
    this.door.addon.ring();
  }

  /** Orders what was stored before against plain loads of peers (ordering.ts). */
  barrier(): void {
    if (this.door.asymmetric) this.door.addon.barrier();
  }

  // ---- deferred work ----

  /** A queue pair has pending requests. */
  unsettle(qp: ShmQueuePair): void {
    this.#unsettled.add(qp);
    this.#countBusy();
    if (this.#holds > 0) this.sleeping(); // somebody sleeps already
  }

  settle(qp: ShmQueuePair): void {
    this.#unsettled.delete(qp);
    this.#countBusy();
  }

  #countBusy(): void {
    this.busy = this.#unsettled.size + this.#transfers.outstanding + this.#limbo.length;
  }

  startTransfer(qp: ShmQueuePair, request: SendRequest, job: TransferJob): boolean {
    const started = this.#transfers.start(qp, request, job);
    this.#countBusy();
    return started;
  }

  /** Waits until nothing of this device's memory is being copied by the transfer thread. */
  finishTransfers(): void {
    this.#transfers.finish();
    this.#countBusy();
  }

  /** Gives a closed queue's ring back, once nobody can be writing into it any more. */
  retireRing(ring: ReceiveRing, peer: Peer | undefined): void {
    if (ring.shared) {
      if (ring.seal()) this.#limbo.push({ ring, peer: undefined, attention: 0 });
      else this.arena.give(ring.block);
    } else if (peer && peer !== this.peers.self && !peer.dead) {
      // The peer has looked at its attention word after this, or it is dead: then it is not in the middle of a send.
      const attention = (Atomics.add(peer.i32, H_ATTENTION, 1) + 1) | 0;
      this.door.command[0] = peer.bell;
      this.door.addon.ring(); // it may be asleep
      this.peers.retain(peer);
      this.#limbo.push({ ring, peer, attention });
    } else {
      this.arena.give(ring.block);
    }
    this.#countBusy();
  }

  #sweepLimbo(): void {
    for (let i = this.#limbo.length - 1; i >= 0; i--) {
      const { ring, peer, attention } = this.#limbo[i];
      const free = peer
        ? peer.dead ||
          ((Atomics.load(peer.i32, H_ACKNOWLEDGED) - attention) | 0) >= 0 ||
          Atomics.load(peer.i32, H_STATE) !== STATE_LIVE
        : !ring.seal();
      if (!free) continue;
      this.#limbo.splice(i, 1);
      this.arena.give(ring.block);
      if (peer) this.peers.release(peer);
    }
  }

  /** Carries everything forward that waits. Called from poll, from the bell and from the ticker. */
  progress(): void {
    if (this.#progressing || this.isClosed) return;
    this.#progressing = true;
    try {
      const now = Atomics.load(this.i32, H_ATTENTION);
      if (now !== this.attention) {
        this.attention = now;
        this.#attend();
      }
      if (this.#transfers.outstanding > 0) this.#transfers.reap();
      if (this.#transfers.outstanding === 0) Atomics.store(this.i32, H_ACKNOWLEDGED, this.attention);
      for (const qp of this.#unsettled) qp.advance();
      if (this.#limbo.length > 0) this.#sweepLimbo();
      this.#countBusy();
    } finally {
      this.#progressing = false;
    }
  }

  #attend(): void {
    this.peers.attend();
    for (const qp of this.queuePairs.values()) qp.blamed();
    for (const cq of this.completionQueues) cq.checkOverrun();
    for (const srq of this.srqs) srq.check();
  }

  failQueuePairsOf(cq: ShmCompletionQueue): void {
    for (const qp of this.queuePairs.values()) {
      if ((qp.sendCq === cq || qp.recvCq === cq) && qp.state !== 'RESET' && qp.state !== 'ERR') {
        this.raise({ type: 'QP_FATAL', qpNum: qp.qpNum, words: 'its completion queue overran' });
        qp.modify('ERR');
      }
    }
  }

  // ---- waking ----

  #rang(): void {
    this.progress();
    for (const cq of this.completionQueues) cq.rang();
  }

  /** Completions of this context's own making are there: a queue that was armed wakes from a clean stack. */
  wakeLocal(cq: ShmCompletionQueue): void {
    queueMicrotask(() => cq.rang());
  }

  /** Somebody is about to wait: pending work then needs a clock, because nobody polls. */
  sleeping(): void {
    this.#transfers.ringAtEnd();
    if (this.busy === 0 || this.#ticker) return;
    this.#ticker = setInterval(() => {
      this.#rang();
      if (this.busy > 0) return;
      clearInterval(this.#ticker);
      this.#ticker = undefined;
    }, 1);
    this.#ticker.unref();
  }

  hold(on: boolean): void {
    this.#holds += on ? 1 : -1;
    if (!this.isClosed) this.door.addon.bellHold(this.#bell, this.#holds > 0 ? 1 : 0);
  }

  override nextEvent(options: WaitOptions = {}): Promise<AsyncEvent> {
    this.sleeping();
    return super.nextEvent(options);
  }

  // ---- the rest ----

  counters(): Counters {
    const sum = (counter: number) => {
      let total = this.f64[H_RETIRED_F64 + counter];
      for (const qp of this.queuePairs.values()) total += this.f64[qp.counterAt + counter];
      return total;
    };
    return {
      operations: sum(C_OPERATIONS),
      bytes: sum(C_BYTES),
      bytesCopied: sum(C_BYTES) + sum(C_COPIED_OUT),
      systemCalls: sum(C_SYSTEM_CALLS),
      errors: sum(C_ERRORS),
    };
  }

  /** Bytes of shared memory held now: segments (arena and rings) and control pages for queue pairs. */
  get segmentBytes(): number {
    return this.f64[H_SEGMENT_BYTES_F64];
  }

  close(): void {
    if (this.isClosed) return;
    clearInterval(this.#ticker);
    this.connections.close();
    this.#transfers.finish();
    for (const qp of [...this.queuePairs.values()]) qp.close();
    for (const cq of [...this.completionQueues]) cq.shut();
    for (const thread of this.#threads) thread.close();
    this.isClosed = true;
    this.events.close();
    this.#transfers.close();
    this.peers.stop();
    this.door.addon.bellClose(this.#bell);
    this.peers.close();
    this.memory.close();
    this.arena.close();
    this.control.close(this.door);
  }
}
