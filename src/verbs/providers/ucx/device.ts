/**
 * A device whose wire is UCX: whatever transports libucp finds (shared memory, TCP, InfiniBand, ...), chosen by UCX and its settings. Everything of a device
 * happens in this thread, when it makes progress: in `poll`, and when UCX's descriptor wakes the event loop. So, unlike with a NIC, a peer that computes
 * answers nothing meanwhile.
 */

import { closeSync, fstatSync, openSync } from 'node:fs';
import { basename } from 'node:path';
import { type Door, openDoor } from '../../../native/door.js';
import { CompletionChannel, type CompletionThread, type CqInit } from '../../completion-queue.js';
import type { Connection, ConnectOptions, Listener } from '../../connection.js';
import type { AllocOptions, AsyncEvent, Capabilities, Counters, Device, DeviceOptions, MapFileOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import type { MemoryKind } from '../../memory-region.js';
import type { QueuePair } from '../../queue-pair.js';
import { STATUS } from '../../status.js';
import { createSegment, Segment } from '../shm/segment.js';
import { loadUcx, type Pointer, type UcxAddon } from './addon.js';
import { UcxCompletionQueue } from './completion-queue.js';
import { ConnectionManager } from './connection-manager.js';
import { isAlive, isSameHost, processName } from './peer-process.js';
import { UcxProtectionDomain } from './protection-domain.js';
import type { UcxQueuePair } from './queue-pair.js';
import type { UcxMemoryRegion } from './region.js';
import { DATA_INLINE, EVENT_DONE, EVENT_FAILED, EVENT_HEADER, EVENT_MESSAGE, Rings } from './rings.js';
import { KIND_ACK, KIND_CM, KIND_REPLY, W_IMM, W_KEY, W_KIND, W_QP } from './wire.js';

const PAGE = 4096;
/** How often peers of this host are looked after, milliseconds. */
const WATCH_MS = 250;
/** How often a device that listens looks for connections, milliseconds. */
const LISTEN_MS = 20;
const FIRST_NUMBER = 16;
/** Words before the data of an event: its own eight, and the header. */
const DATA_BYTE = 64;

export interface Waiter<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** Whoever waits for an operation of UCX. */
export interface Sender {
  sent(seq: number, status: number): void;
}

const open = new Set<UcxDevice>();

function closeAll(): void {
  for (const device of [...open]) device.close();
}

export class UcxDevice implements Device {
  readonly provider = 'ucx';
  readonly name: string;
  /** UCX has no GIDs: this one only tells devices apart. */
  readonly gid: string;
  /** UCX's address of this device, base64: what peers connect to. */
  readonly target: string;
  readonly capabilities: Capabilities;
  /** Network interfaces that UCX was told to use. */
  readonly interfaces: readonly string[];
  readonly rings: Rings;
  readonly regions = new Map<number, UcxMemoryRegion>();
  isClosed = false;
  operations = 0;
  bytes = 0;
  errors = 0;
  private readonly addon: UcxAddon;
  private readonly context: Pointer;
  private readonly door: Door;
  private readonly cqs = new Set<UcxCompletionQueue>();
  private readonly queuePairs = new Map<number, UcxQueuePair>();
  private readonly endpoints = new Map<string, { number: number; users: number }>();
  private readonly endpointNames = new Map<number, string>();
  /** By number of the operation. */
  private readonly senders = new Map<number, Sender>();
  private readonly sequences = new Map<number, number>();
  private readonly memories = new Map<ArrayBuffer, MemoryKind>();
  private readonly readOnly = new WeakSet<ArrayBuffer>();
  private readonly addresses = new WeakMap<ArrayBuffer, number>();
  private readonly events: AsyncEvent[] = [];
  private readonly eventWaiters = new Set<Waiter<AsyncEvent>>();
  private readonly manager: ConnectionManager;
  /** Processes at the other ends, by endpoint. */
  private readonly guarded = new Map<number, string>();
  private watchman: NodeJS.Timeout | undefined;
  private nextNumber = FIRST_NUMBER;
  private nextKey = 0;
  private holds = 0;
  private isProgressing = false;
  private isAsleep = false;
  private isFallingAsleep = false;
  private heartbeat: NodeJS.Timeout | undefined;
  private bedtime: NodeJS.Immediate | undefined;

  /** Opens UCX with settings (`TLS`, `NET_DEVICES`, ...) over those of the environment (UCX_TLS, ...). Throws VERBS_INVALID, VERBS_NO_DEVICE. */
  static open(settings: readonly (readonly [name: string, value: string])[], options: DeviceOptions): UcxDevice {
    for (const name of Object.keys(options)) {
      if (name !== 'name') throw new VerbsError('VERBS_INVALID', `the ucx provider has no option '${name}': it has name`);
    }
    return new UcxDevice(settings, options.name ?? basename(process.argv[1] ?? 'node'));
  }

  private constructor(settings: readonly (readonly [name: string, value: string])[], name: string) {
    this.name = name;
    const devices = settings.find(([setting]) => setting === 'NET_DEVICES')?.[1] ?? process.env['UCX_NET_DEVICES'] ?? '';
    this.interfaces = devices.split(',');
    this.addon = loadUcx();
    this.door = openDoor();
    const context = this.addon.contextOpen(settings.flat());
    if (context <= -100) {
      throw new VerbsError(
        'VERBS_INVALID',
        `UCX has no setting '${settings[-100 - context][0]}', or not this value: see ucx_info -cf`,
      );
    }
    if (context < 0) throw new VerbsError('VERBS_NO_DEVICE', `UCX cannot be opened: ${this.addon.statusWords(context)}`);
    this.context = context;
    try {
      this.rings = new Rings(this.addon, context, () => this.woke());
    } catch (status) {
      this.addon.contextClose(context);
      throw new VerbsError('VERBS_NO_DEVICE', `UCX makes no worker: ${this.addon.statusWords(status as number)}`);
    }
    this.target = `${Buffer.from(this.rings.native.address).toString('base64')}@${processName()}`;
    const random = () => Math.floor(Math.random() * 65536).toString(16);
    this.gid = `fd00::${random()}:${random()}:${random()}:${random()}`;
    this.capabilities = {
      qpTypes: ['RC'],
      maxInline: 4096,
      maxSge: 64,
      maxMessage: 2 ** 31,
      maxQpWr: 65536,
      mtu: 4096,
      atomics: 'hca',
      srq: false,
      multicast: false,
      dc: false,
      onDemand: false,
      umr: false,
      memoryWindows: false,
      privateMemory: true,
      mappedFiles: true,
      directAccess: false,
      peerDeath: false,
      virtualTime: false,
    };
    this.manager = new ConnectionManager(this);
    if (open.size === 0) process.on('exit', closeAll);
    open.add(this);
    this.watch();
  }

  /** Version of libucp. */
  get version(): string {
    return this.addon.version();
  }

  assertOpen(): void {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the device is closed');
  }

  statusWords(status: number): string {
    return `UCX says: ${this.addon.statusWords(status)}`;
  }

  /** What UCX says of its way to a queue pair's peer: transports, lanes, thresholds. */
  describe(qp: QueuePair): string {
    return this.addon.describe(this.rings.native.handle, (qp as UcxQueuePair).endpoint);
  }

  // ---- progress ----

  /** Lets UCX work and takes what happened. */
  progress(): void {
    if (this.isProgressing || this.isClosed) return;
    this.isProgressing = true;
    try {
      const { rings } = this;
      // What was worked off while the descriptor was watched took the watch with it.
      if (rings.progress() > 0 && !this.isFallingAsleep) this.isAsleep = false;
      if (rings.events > 0) this.read();
    } finally {
      this.isProgressing = false;
    }
    if (this.bedtime === undefined && !this.isAsleep && !this.isFallingAsleep) this.watch();
  }

  private read(): void {
    const { rings } = this;
    const { e32, e64 } = rings;
    let at = 0;
    while (at < rings.events && !this.isClosed) {
      const word = at >> 2;
      switch (e32[word]) {
        case EVENT_MESSAGE:
          this.message(word, e32[word + 2], e64[(at + 16) >> 3], e64[(at + 24) >> 3]);
          break;
        case EVENT_DONE:
          this.done(e32[word + 2], e32[word + 3]);
          break;
        case EVENT_FAILED:
          this.lost(e32[word + 2], e32[word + 3]);
      }
      at += e32[word + 1];
    }
    if (!this.isClosed) rings.consumed(at);
  }

  private message(word: number, dataKind: number, length: number, data: number): void {
    const { rings } = this;
    const { e32, eventBytes } = rings;
    const header = word + EVENT_HEADER;
    const handle = dataKind === DATA_INLINE ? 0 : data;
    const dataAt = word * 4 + DATA_BYTE;
    const kind = e32[header + W_KIND] & 255;
    if (kind === KIND_CM) {
      let bytes: Uint8Array;
      if (dataKind === DATA_INLINE) {
        bytes = eventBytes.slice(dataAt, dataAt + length);
      } else {
        bytes = new Uint8Array(length);
        if (rings.take(dataKind, handle, this.addressOf(bytes), length) !== 0) return; // never so long that it would be fetched
      }
      this.manager.heard(bytes);
      return;
    }
    const qp = this.queuePairs.get(e32[header + W_QP]);
    if (qp === undefined) {
      rings.discard(dataKind, handle);
      return;
    }
    if (kind === KIND_ACK) qp.answered(e32[header + W_IMM], e32[header + W_KEY]);
    else if (kind === KIND_REPLY) this.reply(qp, e32[header + W_IMM], dataKind, handle, length, dataAt);
    else qp.arrived(e32, header, dataKind, handle, length, eventBytes, dataAt);
  }

  /** What a READ or an atomic brings back. */
  private reply(qp: UcxQueuePair, seq: number, dataKind: number, data: number, length: number, dataAt: number): void {
    const { rings } = this;
    const list = qp.replyTarget(seq)?.filter((sge) => sge.length > 0);
    if (list === undefined) {
      rings.discard(dataKind, data);
      return;
    }
    const spread = (all: Uint8Array) => {
      let from = 0;
      for (const { addr, length: room, lkey } of list) {
        const region = this.regions.get(lkey);
        const count = Math.min(room, all.length - from);
        if (region && count > 0) region.bytes.set(all.subarray(from, from + count), addr - region.addr);
        from += count;
      }
    };
    if (dataKind === DATA_INLINE) {
      spread(rings.eventBytes.subarray(dataAt, dataAt + length));
      qp.replied(seq);
      return;
    }
    const isOne = list.length === 1 && list[0].length >= length;
    const all = isOne ? undefined : new Uint8Array(length);
    const result = rings.take(dataKind, data, all ? this.addressOf(all) : list[0].addr, length);
    const finish = (status: number) => {
      if (status !== 0) {
        qp.fail(STATUS.RETRY_EXC_ERR, this.statusWords(status));
        return;
      }
      if (all) spread(all);
      qp.replied(seq);
    };
    if (result > 0) this.track(result, { sent: (_, status) => finish(status) }, 0);
    else finish(result);
  }

  /** An operation of UCX goes on; `sender` hears of its end. */
  track(operation: number, sender: Sender, seq: number): void {
    this.senders.set(operation, sender);
    this.sequences.set(operation, seq);
  }

  /** An operation whose end nobody needs; `kept` stays until then. */
  ignore(operation: number, kept?: unknown): void {
    if (kept !== undefined) this.senders.set(operation, { sent: () => void kept });
  }

  private done(operation: number, status: number): void {
    const sender = this.senders.get(operation);
    if (sender === undefined) return;
    const seq = this.sequences.get(operation) ?? 0;
    this.senders.delete(operation);
    this.sequences.delete(operation);
    sender.sent(seq, status);
  }

  /** UCX says that the way to a peer broke. */
  private lost(endpoint: number, status: number): void {
    this.gone(endpoint, this.statusWords(status));
    this.addon.disconnect(this.rings.native.handle, endpoint, 1);
  }

  private gone(endpoint: number, words: string): void {
    for (const qp of [...this.queuePairs.values()]) {
      if (qp.endpoint === endpoint) qp.fail(STATUS.RETRY_EXC_ERR, `the peer is gone: ${words}`);
    }
    this.manager.endpointLost(endpoint);
    const name = this.endpointNames.get(endpoint);
    this.endpointNames.delete(endpoint);
    if (name !== undefined) this.endpoints.delete(name);
  }

  /** Sends a header alone. */
  control(endpoint: number): void {
    const result = this.rings.sendInline(endpoint, 0, 0, false);
    if (result > 0) this.ignore(result);
  }

  /** Sends a message of connection management. False when the way is broken. */
  tell(endpoint: number, message: object): boolean {
    const bytes = Buffer.from(JSON.stringify(message));
    const { rings } = this;
    rings.header.fill(0);
    rings.header[W_KIND] = KIND_CM;
    rings.commandBytes.set(bytes, rings.inlineAt(0));
    const result = rings.sendInline(endpoint, 0, bytes.length, false);
    if (result > 0) this.ignore(result);
    return result >= 0;
  }

  // ---- sleeping ----

  /** When the event loop turns idle, UCX's descriptor is watched, so that a message wakes it. */
  watch(): void {
    if (this.isClosed || this.isAsleep) return;
    this.bedtime ??= setImmediate(() => this.sleep());
    if (this.holds > 0) this.bedtime.ref();
    else this.bedtime.unref();
  }

  private sleep(): void {
    this.bedtime = undefined;
    if (this.isClosed || this.isAsleep) return;
    this.isFallingAsleep = true;
    this.progress();
    this.isFallingAsleep = false;
    if (this.isClosed) return;
    if (this.addon.workerSleep(this.rings.native.handle) === 1) {
      this.isAsleep = true;
      return;
    }
    this.watch();
  }

  private woke(): void {
    this.isAsleep = false;
    this.progress();
    this.watch();
  }

  /** Keeps the process alive while somebody waits. */
  hold(on: boolean): void {
    this.holds += on ? 1 : -1;
    if (this.isClosed) return;
    this.addon.workerHold(this.rings.native.handle, this.holds > 0 ? 1 : 0);
    if (this.holds > 0) this.bedtime?.ref();
    else this.bedtime?.unref();
  }

  // ---- the ways to peers ----

  /** The way to a device by its target; counted. Throws VERBS_INVALID, VERBS_NO_DEVICE. */
  endpointTo(target: string): number {
    const known = this.endpoints.get(target);
    if (known) {
      known.users++;
      return known.number;
    }
    const [address, process = ''] = target.split('@');
    const bytes = new Uint8Array(Buffer.from(address, 'base64'));
    if (bytes.length < 8)
      throw new VerbsError('VERBS_INVALID', 'this is no address of a UCX device: give the av of its address()');
    const isLocal = isSameHost(process);
    const number = this.addon.connect(this.rings.native.handle, bytes, isLocal ? 0 : 1);
    if (number < 0)
      throw new VerbsError('VERBS_NO_DEVICE', `no way to the peer. ${this.statusWords(number)}: check UCX_TLS on both sides`);
    this.endpoints.set(target, { number, users: 1 });
    this.endpointNames.set(number, target);
    if (isLocal) this.guard(number, process);
    return number;
  }

  /** Looks after the process at the other end. */
  private guard(endpoint: number, name: string): void {
    this.guarded.set(endpoint, name);
    this.watchman ??= setInterval(() => {
      for (const [number, one] of [...this.guarded]) {
        if (isAlive(one)) continue;
        this.guarded.delete(number);
        this.gone(number, 'its process ended');
      }
    }, WATCH_MS).unref();
  }

  leaveEndpoint(number: number): void {
    const name = this.endpointNames.get(number);
    const known = name === undefined ? undefined : this.endpoints.get(name);
    if (known && known.users > 0) known.users--;
    // The way stays: the next connection to the same device uses it, and the device closes it.
  }

  adopt(qp: UcxQueuePair): number {
    const number = this.nextNumber++;
    this.queuePairs.set(number, qp);
    return number;
  }

  release(qp: UcxQueuePair): void {
    this.queuePairs.delete(qp.qpNum);
    this.manager.queuePairClosed(qp);
  }

  newKey(): number {
    this.nextKey++;
    return this.nextKey;
  }

  // ---- objects ----

  allocPd(): UcxProtectionDomain {
    this.assertOpen();
    return new UcxProtectionDomain(this);
  }

  createCq(init: CqInit = {}): UcxCompletionQueue {
    this.assertOpen();
    const cq = new UcxCompletionQueue(this, init);
    this.cqs.add(cq);
    return cq;
  }

  forgetCq(cq: UcxCompletionQueue): void {
    this.cqs.delete(cq);
  }

  createCompletionChannel(): CompletionChannel {
    this.assertOpen();
    return new CompletionChannel();
  }

  createCompletionThread(): CompletionThread {
    throw new VerbsError('VERBS_UNSUPPORTED', 'a UCX device makes progress in the thread that opened it');
  }

  // ---- memory ----

  alloc(byteLength: number, options: AllocOptions = {}): ArrayBuffer {
    this.assertOpen();
    if (!Number.isInteger(byteLength) || byteLength < 1) {
      throw new VerbsError('VERBS_INVALID', `alloc takes a number of bytes, at least 1: got ${String(byteLength)}`);
    }
    const unit = options.hugePages ? 2 << 20 : PAGE;
    const segment = createSegment(this.door, 'verbena-ucx', Math.ceil(byteLength / unit) * unit, options);
    const memory = this.door.addon.view(segment.mapping, 0, byteLength);
    segment.close(this.door);
    this.memories.set(memory, 'arena');
    return memory;
  }

  free(memory: ArrayBuffer): void {
    if (!this.memories.has(memory)) return;
    for (const region of this.regions.values()) {
      if (region.bytes.buffer === memory) throw new VerbsError('VERBS_BUSY', 'the memory is registered: deregister it first');
    }
    this.memories.delete(memory);
  }

  mapFile(path: string, options: MapFileOptions = {}): ArrayBuffer {
    this.assertOpen();
    const { writable = false, offset = 0 } = options;
    if (!Number.isInteger(offset) || offset < 0 || offset % PAGE !== 0) {
      throw new VerbsError('VERBS_INVALID', `offset must be a multiple of ${PAGE}: got ${String(offset)}`);
    }
    let fd: number;
    try {
      fd = openSync(path, writable ? 'r+' : 'r');
    } catch (error) {
      throw new VerbsError('VERBS_SYSTEM', `cannot map ${path}: ${(error as Error).message}`, { cause: error });
    }
    try {
      const { size } = fstatSync(fd);
      const length = options.length ?? size - offset;
      if (!Number.isInteger(length) || length < 1 || offset + length > size) {
        throw new VerbsError(
          'VERBS_INVALID',
          `${path} has ${size} bytes: bytes ${offset} to ${offset + length} are not all there`,
        );
      }
      const segment = new Segment(this.door, fd, offset, length, writable, false);
      segment.close(this.door);
      this.memories.set(segment.buffer, 'file');
      if (!writable) this.readOnly.add(segment.buffer);
      return segment.buffer;
    } finally {
      closeSync(fd);
    }
  }

  directAccess(): Uint8Array {
    throw new VerbsError('VERBS_UNSUPPORTED', 'the memory of a peer is behind UCX: use RDMA_READ and RDMA_WRITE');
  }

  kindOf(buffer: ArrayBuffer): MemoryKind {
    return this.memories.get(buffer) ?? 'private';
  }

  isReadOnly(buffer: ArrayBuffer): boolean {
    return this.readOnly.has(buffer);
  }

  /** Address of the first of some bytes, in this process. */
  addressOf(bytes: Uint8Array): number {
    const buffer = bytes.buffer as ArrayBuffer;
    let base = this.addresses.get(buffer);
    if (base === undefined) {
      base = this.door.addon.addressOf(buffer);
      this.addresses.set(buffer, base);
    }
    return base + bytes.byteOffset;
  }

  // ---- connections and events ----

  async listen(name: string): Promise<Listener> {
    this.assertOpen();
    // UCX does not always wake who has no connection yet (its TCP leaves idle interfaces out), so a listener looks by itself now and then.
    this.heartbeat ??= setInterval(() => this.progress(), LISTEN_MS).unref();
    return this.manager.listen(name);
  }

  async connect(name: string, qp: QueuePair, options: ConnectOptions = {}): Promise<Connection> {
    this.assertOpen();
    return this.manager.connect(name, qp as UcxQueuePair, options);
  }

  raise(event: AsyncEvent): void {
    const [waiter] = this.eventWaiters;
    if (waiter) waiter.resolve(event);
    else this.events.push(event);
  }

  pollEvent(): AsyncEvent | undefined {
    this.progress();
    return this.events.shift();
  }

  nextEvent(options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<AsyncEvent> {
    const event = this.pollEvent();
    if (event) return Promise.resolve(event);
    return this.wait<AsyncEvent>(options, 'no event', (waiter) => {
      this.eventWaiters.add(waiter);
      return () => this.eventWaiters.delete(waiter);
    });
  }

  /** A wait with a time limit and a signal. `start` registers the waiter and returns what takes it back. */
  wait<T>(
    options: { timeoutMs?: number | undefined; signal?: AbortSignal | undefined },
    what: string,
    start: (waiter: Waiter<T>) => () => void,
  ): Promise<T> {
    const { timeoutMs, signal } = options;
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted || this.isClosed) {
        reject(signal?.reason ?? new VerbsError('VERBS_CLOSED', 'the device is closed'));
        return;
      }
      let isOver = false;
      let takeBack = (): void => {};
      const end = (act: () => void): void => {
        if (isOver) return;
        isOver = true;
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        takeBack();
        this.hold(false);
        act();
      };
      const abort = (): void => end(() => reject(signal?.reason));
      const late = (): void => end(() => reject(new VerbsError('VERBS_TIMEOUT', `${what} within ${timeoutMs} ms`)));
      const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
      this.hold(true);
      signal?.addEventListener('abort', abort, { once: true });
      try {
        takeBack = start({
          resolve: (value) => end(() => resolve(value)),
          reject: (error) => end(() => reject(error)),
        });
        this.watch();
      } catch (error) {
        end(() => reject(error));
      }
    });
  }

  counters(): Counters {
    const { operations, bytes, errors } = this;
    return { operations, bytes, bytesCopied: bytes, systemCalls: 0, errors };
  }

  close(): void {
    if (this.isClosed) return;
    this.manager.close();
    // What was said last has to leave before the worker goes.
    for (let i = 0; i < 100; i++) this.rings.progress();
    this.isClosed = true;
    clearImmediate(this.bedtime);
    clearInterval(this.watchman);
    clearInterval(this.heartbeat);
    open.delete(this);
    if (open.size === 0) process.off('exit', closeAll);
    for (const qp of this.queuePairs.values()) qp.shut();
    for (const cq of [...this.cqs]) cq.shut();
    for (const waiter of [...this.eventWaiters]) waiter.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
    this.addon.workerClose(this.rings.native.handle);
    this.addon.contextClose(this.context);
    this.queuePairs.clear();
    this.regions.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
