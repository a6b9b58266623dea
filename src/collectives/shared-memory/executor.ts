/**
 * The executor of processes of one host: joins the control segments, knows which memory peers can map, and runs call blocks, on this thread or on one of
 * its own.
 *
 * Arena memory (`device.alloc`, mapped files, anything mapped shared from a memory file) is used where it lies; other memory passes through a
 * staging area. The kind is found once per ArrayBuffer.
 */

import { readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { getSystemErrorName } from 'node:util';
import type { Addon } from '../../native/addon.js';
import { loadAddon } from '../../native/load.js';
import { CollectiveError } from '../errors.js';
import { type Exchange, exchangeAll, type Patience, pause } from '../exchange.js';
import { AT, BLOCK_BYTES, type CallBuffer, type CallFields, callError, fillBlock } from './call.js';

interface Address {
  readonly host: string;
  readonly pid: number;
  readonly fd: number;
}

interface Waiting {
  readonly call: Call;
  resolve(): void;
  reject(error: Error): void;
}

/** What submitting says of a small call that all others had entered: it is over. As in native/collective.h. */
const OVER = -1;

/** A filled block and everything it points to. */
export class Call {
  readonly block: Float64Array;
  readonly words: Int32Array;
  readonly address: number;
  /** For messages: 'allreduce of 1024 x f32'. */
  readonly what: string;
  /** Memory that C reads through the block. */
  readonly kept: readonly unknown[];
  running = false;

  constructor(addon: Addon, what: string, kept: readonly unknown[]) {
    const memory = new ArrayBuffer(BLOCK_BYTES);
    this.block = new Float64Array(memory);
    this.words = new Int32Array(memory);
    this.address = addon.addressOf(memory);
    this.what = what;
    this.kept = kept;
  }
}

export class SharedMemoryExecutor {
  readonly rank: number;
  readonly #addon: Addon;
  readonly #comm: number;
  readonly #command: Float64Array;
  readonly #bell: number;
  readonly #bellFd: number;
  readonly #processes: readonly number[];
  readonly #addresses = new WeakMap<ArrayBufferLike, { readonly address: number; readonly handle: number }>();
  readonly #waiting: Waiting[] = [];
  /** Totals over all calls: bytes sent, bytes accessed in peers' memory, messages. */
  readonly totals = { bytesSent: 0, bytesAccessed: 0, messages: 0 };
  #open = true;

  private constructor(addon: Addon, rank: number, comm: number, processes: readonly number[]) {
    this.rank = rank;
    this.#processes = processes;
    this.#addon = addon;
    this.#comm = comm;
    this.#command = new Float64Array(addon.command());
    const bell = addon.bellOpen(() => this.#settle());
    if (typeof bell === 'number') throw systemError(bell, 'cannot make a bell');
    [this.#bell, this.#bellFd] = bell;
  }

  /** All ranks call it. @throws COLL_INVALID when ranks live on several hosts, COLL_SYSTEM. */
  static async open(
    rank: number,
    size: number,
    exchange: Exchange,
    key: string,
    patience: Patience,
  ): Promise<SharedMemoryExecutor> {
    const addon = loadAddon();
    const opened = addon.collectiveOpen(rank, size);
    if (typeof opened === 'number') throw systemError(opened, 'cannot make the control segment');
    const [comm, fd] = opened;
    try {
      const own: Address = { host: hostIdentity(), pid: process.pid, fd };
      const all = await exchangeAll(exchange, key, rank, size, own, patience);
      for (const [r, { host, pid, fd: theirs }] of all.entries()) {
        if (r === rank) continue;
        if (host !== own.host) {
          throw new CollectiveError('COLL_INVALID', `rank ${r} is on another host, and only ranks of one host share memory`);
        }
        const errno = addon.collectiveJoin(comm, r, pid, theirs);
        if (errno !== 0) throw systemError(errno, `cannot map the control segment of rank ${r} (process ${pid})`);
      }
      const processes = all.map(({ pid }) => pid);
      return new SharedMemoryExecutor(addon, rank, comm, processes);
    } catch (error) {
      addon.stop(comm);
      throw error;
    }
  }

  /** Where the elements lie, and the handle under which peers map them (-1: they cannot). */
  locate(view: ArrayBufferView): { readonly address: number; readonly handle: number } {
    let found = this.#addresses.get(view.buffer);
    if (found === undefined) {
      const address = this.#addon.addressOf(view.buffer as ArrayBuffer);
      found = { address, handle: view.byteLength === 0 ? -1 : this.#addon.collectiveShare(this.#comm, address) };
      this.#addresses.set(view.buffer, found);
    }
    return view.byteOffset === 0 ? found : { address: found.address + view.byteOffset, handle: found.handle };
  }

  addressOf(view: ArrayBufferView): number {
    return this.#addon.addressOf(view.buffer as ArrayBuffer) + view.byteOffset;
  }

  call(what: string, kept: readonly unknown[], fields: Omit<CallFields, 'buffers'>, buffers: readonly CallBuffer[]): Call {
    const call = new Call(this.#addon, what, kept);
    fillBlock(call.block, this.#comm, this.#bellFd, { ...fields, buffers });
    return call;
  }

  /** Runs it on this thread. @throws what `callError` says. */
  runSync(call: Call, timeoutMs: number): void {
    if (!this.#open) throw this.#closed();
    this.#take(call, timeoutMs);
    this.#command[0] = call.address;
    this.#addon.collectiveRun();
    this.#count(call);
    if (call.block[AT.status] !== 0) throw callError(call.block, call.what, this.rank) as Error;
  }

  /** Runs it on the executor's thread, after those begun before. */
  run(call: Call, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!this.#open) throw this.#closed();
      signal?.throwIfAborted();
      this.#take(call, timeoutMs);
      call.words[AT.done] = 0;
      const errno = this.#addon.collectiveSubmit(call.address);
      if (errno === OVER && this.#waiting.length === 0) {
        this.#count(call);
        const error = callError(call.block, call.what, this.rank);
        if (error === undefined) resolve();
        else reject(error);
        return;
      }
      if (errno !== 0 && errno !== OVER) {
        call.running = false;
        throw systemError(errno, `cannot start ${call.what}`);
      }
      const abort = () => this.abort();
      signal?.addEventListener('abort', abort, { once: true });
      const ended = () => signal?.removeEventListener('abort', abort);
      if (this.#waiting.length === 0) this.#addon.bellHold(this.#bell, 1);
      this.#waiting.push({
        call,
        resolve: () => {
          ended();
          resolve();
        },
        reject: (error) => {
          ended();
          reject(signal?.aborted ? (signal.reason as Error) : error);
        },
      });
      if (errno === OVER) this.#settle(); // after those before it
    });
  }

  abort(): void {
    if (this.#open) this.#addon.collectiveAbort(this.#comm);
  }

  /** Calls that this rank has completed. */
  get completed(): number {
    return this.#open ? this.#addon.collectiveCompleted(this.#comm) : 0;
  }

  isDead(rank: number): boolean {
    return this.#open && this.#addon.collectivePeer(this.#comm, rank) === 1;
  }

  /** Ends the process of a rank: it has mapped memory of this one and may stand in the middle of writing there. */
  async expel(rank: number): Promise<void> {
    const pid = this.#processes[rank];
    if (pid === process.pid || this.isDead(rank)) return;
    process.kill(pid, 'SIGKILL');
    while (this.#open && !this.isDead(rank)) await pause();
  }

  /** Ends calls under way with COLL_CLOSED. Idempotent. */
  close(): void {
    if (!this.#open) return;
    this.#addon.stop(this.#comm);
    this.#settle();
    this.#open = false;
    this.#addon.bellClose(this.#bell);
  }

  #take(call: Call, timeoutMs: number): void {
    if (call.running) throw new CollectiveError('COLL_INVALID', `${call.what} is under way already`);
    call.running = true;
    call.block[AT.timeout] = Number.isFinite(timeoutMs) ? timeoutMs : 0;
  }

  #count(call: Call): void {
    call.running = false;
    this.totals.bytesSent += call.block[AT.sent];
    this.totals.bytesAccessed += call.block[AT.accessed];
    this.totals.messages += call.block[AT.messages];
  }

  /** Calls end in the order in which they began. */
  #settle(): void {
    while (this.#waiting.length > 0 && Atomics.load(this.#waiting[0].call.words, AT.done) === 1) {
      const { call, resolve, reject } = this.#waiting.shift() as Waiting;
      this.#count(call);
      const error = callError(call.block, call.what, this.rank);
      if (error === undefined) resolve();
      else reject(error);
    }
    if (this.#waiting.length === 0 && this.#open) this.#addon.bellHold(this.#bell, 0);
  }

  #closed(): CollectiveError {
    return new CollectiveError('COLL_CLOSED', 'this communicator is closed');
  }
}

/** The machine, and the namespace in which its process numbers count. */
export function hostIdentity(): string {
  return `${hostname()} ${readlinkSync('/proc/self/ns/pid')}`;
}

function systemError(errno: number, what: string): CollectiveError {
  return new CollectiveError('COLL_SYSTEM', `${what}: ${getSystemErrorName(-Math.abs(errno))}`);
}
