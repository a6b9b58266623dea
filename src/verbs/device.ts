/**
 * A device: an opened context of a provider, where every other object comes from.
 *
 * Which operations, queue pair types and memory kinds it has is data in `capabilities`. Errors that belong to no request arrive as async events.
 */

import type { CompletionChannel, CompletionQueue, CompletionThread, CqInit } from './completion-queue.js';
import type { Connection, ConnectOptions, Listener } from './connection.js';
import type { RemoteRegion } from './memory-region.js';
import type { QpType } from './opcode.js';
import type { ProtectionDomain } from './protection-domain.js';
import type { QpAddress, QueuePair } from './queue-pair.js';

/** What a device can do. */
export interface Capabilities {
  readonly qpTypes: readonly QpType[];
  /** Largest `maxInline` of a queue pair, bytes. */
  readonly maxInline: number;
  readonly maxSge: number;
  readonly maxMessage: number;
  readonly maxQpWr: number;
  /** Path MTU, bytes: the longest UD message. */
  readonly mtu: number;
  /** 'none'; 'hca': atomic among requests of this device; 'global': also against the CPU of the target. */
  readonly atomics: 'none' | 'hca' | 'global';
  readonly srq: boolean;
  readonly multicast: boolean;
  /** Dynamically connected transport (DCI, DCT). */
  readonly dc: boolean;
  /** On-demand registration: pages come in when touched. */
  readonly onDemand: boolean;
  /** Indexed and strided regions under one key. */
  readonly umr: boolean;
  /** Memory windows. No provider has them yet. */
  readonly memoryWindows: boolean;
  /** Registration of ordinary ArrayBuffers. */
  readonly privateMemory: boolean;
  /** `mapFile`. */
  readonly mappedFiles: boolean;
  /** `directAccess`: a peer's arena as typed arrays. */
  readonly directAccess: boolean;
  /** A death of the peer process is noticed by itself. */
  readonly peerDeath: boolean;
  /** Time and chance are virtual: waits take no real time, and a seed replays everything. */
  readonly virtualTime: boolean;
}

/** Kinds of async events: libibverbs' names without prefix, and three of our own for peers that are processes. */
export type AsyncEventType =
  | 'CQ_ERR'
  | 'QP_FATAL'
  | 'QP_REQ_ERR'
  | 'QP_ACCESS_ERR'
  | 'COMM_EST'
  | 'SQ_DRAINED'
  | 'SRQ_LIMIT_REACHED'
  | 'QP_LAST_WQE_REACHED'
  | 'DEVICE_FATAL'
  | 'PORT_ACTIVE'
  | 'PORT_ERR'
  | 'LID_CHANGE'
  | 'PKEY_CHANGE'
  | 'SM_CHANGE'
  | 'CLIENT_REREGISTER'
  | 'GID_CHANGE'
  | 'PEER_LOST'
  | 'PEER_STOPPED'
  | 'PEER_RESUMED';

/** An error or notice that belongs to no work request. */
export interface AsyncEvent {
  readonly type: AsyncEventType;
  readonly qpNum?: number;
  /** Who it is about, as the provider names peers. */
  readonly peer?: string;
  readonly words: string;
}

/** Options of `device.alloc`. */
export interface AllocOptions {
  /** Reserve no pages now: they come in when touched. Default: false. */
  onDemand?: boolean;
  /** Use huge pages, where the machine has some set aside. Default: false. Throws VERBS_NO_MEMORY where not. */
  hugePages?: boolean;
  /** Take pages of this NUMA node, as long as it has some. Default: of the thread's policy. Throws VERBS_INVALID for a node that is not there. */
  numaNode?: number;
}

/** Options of `device.mapFile`. */
export interface MapFileOptions {
  /** Map for writing too; the file must be writable. Default: false. */
  writable?: boolean;
  /** First byte, a multiple of the page size. Default 0. */
  offset?: number;
  /** Default: to the end of the file. */
  length?: number;
}

/** Counters of a device, a queue pair or a completion queue. All are totals since creation. */
export interface Counters {
  readonly operations: number;
  readonly bytes: number;
  /** Bytes moved by a CPU copy on this side; one per payload byte is the minimum of shared memory. */
  readonly bytesCopied: number;
  readonly systemCalls: number;
  readonly errors: number;
}

/** Options of `openDevice`; a provider takes those that mean something to it and refuses the others. */
export interface DeviceOptions {
  /** Name shown by `verbena top` and in messages. Default: the script's file name. */
  name?: string;
  /** Copies of at least this many bytes leave the JavaScript thread, at the price of a hand-over. Default 2 MiB. shm only. */
  transferThreshold?: number;
  /** A mounted memory file system to take segments from, instead of anonymous ones (huge pages, a size limit). shm only. */
  segmentDirectory?: string;
}

export interface Device {
  /** 'shm', 'sim', 'roce', 'ibverbs'. */
  readonly provider: string;
  readonly name: string;
  /** GID of port 1, IPv6 text form. */
  readonly gid: string;
  readonly capabilities: Capabilities;

  allocPd(): ProtectionDomain;
  createCq(init?: CqInit): CompletionQueue;
  createCompletionChannel(): CompletionChannel;
  /**
   * A native thread that watches completion queues (give it as `thread` to createCq) and wakes the event loop, so that producers make no system call.
   * It spins while there is traffic and sleeps when there is none.
   */
  createCompletionThread(options?: { cpu?: number; numaNode?: number }): CompletionThread;
  /** Memory that peers reach without a copy through the kernel. Zeroed. Throws VERBS_NO_MEMORY at once when pages are lacking. */
  alloc(byteLength: number, options?: AllocOptions): ArrayBuffer;
  /** Gives memory of `alloc` back before the garbage collector would. It must not be registered any more: VERBS_BUSY. */
  free(memory: ArrayBuffer): void;
  /** A file as memory that can be registered. Throws VERBS_SYSTEM with the path. */
  mapFile(path: string, options?: MapFileOptions): ArrayBuffer;
  /** A peer's arena or file memory as bytes of this process. Throws VERBS_UNSUPPORTED for other memory, VERBS_PEER_LOST. */
  directAccess(peer: QpAddress, remote: RemoteRegion): Uint8Array;

  /** Listens under a name (rdma-cm). Throws VERBS_BUSY when the name is taken. */
  listen(name: string): Promise<Listener>;
  /** Connects `qp` to whoever listens. Throws VERBS_REFUSED, VERBS_TIMEOUT, VERBS_NO_DEVICE when nobody listens. */
  connect(name: string, qp: QueuePair, options?: ConnectOptions): Promise<Connection>;

  /** Takes the next async event, or undefined. Synchronous; also carries deferred work forward. */
  pollEvent(): AsyncEvent | undefined;
  /** Waits for the next async event. */
  nextEvent(options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<AsyncEvent>;
  /** Totals over all queue pairs, the closed ones included. */
  counters(): Counters;
  /** Packets, repetitions, and what was dropped, by reason: of a device that makes packets itself (roce). */
  transportCounters?(): Readonly<Record<string, number>>;
  /** Closes everything that came from this device. Idempotent. */
  close(): void;
  [Symbol.dispose](): void;
}
