/**
 * The executor over messages: calls run on any provider, between any ranks. Schedules are walked in JavaScript, transfers are messaging's, vectors are combined in C.
 *
 * Tags: the context (15 bits) and the upper half of the tag (32 bits) are the communicator's, made from its key; the lower half says what the message is.
 *
 *   31..30 kind    29..8 number of the call    7..0 channel, or round of the agreement
 *
 * Any number of calls are under way at once; each has its own number, so their messages never meet. A synchronous call advances the others too, since a rank that waits
 * for one of them may be the one it waits for.
 *
 * What ends a call in the middle (a lost rank, a timeout, an abort) ends the communicator. Whoever finds out tells all ranks; whoever is told tells his neighbours, in case
 * that the first did not live to tell everybody.
 */

import { MessagingError } from '../../messaging/errors.js';
import type { Payload, Request as Transfer, Worker } from '../../messaging/index.js';
import { payloadOf } from '../../messaging/payload.js';
import type { Addon } from '../../native/addon.js';
import { loadAddon } from '../../native/load.js';
import { signatureOf } from '../call-site.js';
import { reductionCode, typeCode } from '../element.js';
import { CollectiveError, RankLost } from '../errors.js';
import type { CallCounters, Executor, Runnable } from '../executor.js';
import type { Plan } from '../plan.js';
import { nameOf, type Request } from '../request.js';
import type { Surroundings } from '../surroundings.js';
import { Agreement } from './agreement.js';
import { bindProgram } from './bound-program.js';
import { MessagingCall, TAG_CONTROL } from './call.js';
import { bury, exhume } from './leftovers.js';
import type { Link } from './links.js';

/** Idle looks of a synchronous call before it gives the core away. */
const SPINS = 200;
/** And between two naps. */
const LOOKS = 16;
/** Naps of a synchronous call that waits, ms: short ones first. */
const SHORT_NAP_MS = 0.05;
const LONG_NAP_MS = 0.5;
const SHORT_NAPS = 400;
/** How often calls beside the event loop look for ranks that left, ms. */
const LOOK_MS = 100;
/** A rank that left in peace may have sent what is still needed; after so long it has not. */
const LEFT_MS = 250;
const CONTROL_WORDS = 3;
/** Up to this many ranks everybody tells everybody of an end; beyond, neighbours at powers of two. */
const FEW_RANKS = 32;

type EndKind = 'lost' | 'aborted' | 'timeout' | 'closed';
const END_KINDS: readonly EndKind[] = ['lost', 'aborted', 'timeout', 'closed'];

/** Why the communicator is over. */
interface End {
  readonly kind: EndKind;
  /** Whose doing it was. */
  readonly rank: number;
  /** First call that is concerned: whoever closes has completed those before. */
  readonly from: number;
}

export interface MessagingInit {
  readonly rank: number;
  readonly size: number;
  readonly key: string;
  readonly links: readonly (Link | undefined)[];
  readonly surroundings: Surroundings | undefined;
}

const napWords = new Int32Array(new SharedArrayBuffer(4));

export class MessagingExecutor implements Executor {
  readonly kind = 'messaging';
  readonly rank: number;
  readonly size: number;
  readonly totals: { bytesSent: number; bytesAccessed: number; messages: number } & CallCounters = {
    bytesSent: 0,
    bytesAccessed: 0,
    messages: 0,
  };
  readonly #addon: Addon;
  readonly #command: Float64Array;
  readonly #links: readonly (Link | undefined)[];
  readonly #workers: readonly Worker[];
  readonly #surroundings: Surroundings | undefined;
  readonly #context: number;
  readonly #tagHi: number;
  readonly #active = new Set<MessagingCall>();
  readonly #dead = new Set<number>();
  /** When a rank was first seen to have left, ms. */
  readonly #left = new Map<number, number>();
  readonly #stopHearing: (() => void) | undefined;
  readonly #control: Transfer[] = [];
  #looking: NodeJS.Timeout | undefined;
  #sequence = 0;
  #completed = 0;
  readonly #ahead = new Set<number>();
  #isPumping = false;
  #isScheduled = false;
  #end: End | undefined;
  #isOpen = true;

  constructor({ rank, size, key, links, surroundings }: MessagingInit) {
    this.rank = rank;
    this.size = size;
    this.#links = links;
    this.#workers = [...new Set(links.flatMap((link) => (link === undefined ? [] : [link.worker])))];
    this.#surroundings = surroundings;
    this.#addon = loadAddon();
    this.#command = new Float64Array(this.#addon.command());
    this.#context = 1 + (hash(key, 0x811c9dc5) % 0x7ffe);
    this.#tagHi = hash(key, 0x2545f491) | 0;
    this.#stopHearing = surroundings?.onLost((lost) => this.#over({ kind: 'lost', rank: lost, from: 0 }, true));
    for (const worker of this.#workers) exhume(worker);
  }

  /** Calls that this rank has completed without a gap. */
  get completed(): number {
    return this.#completed;
  }

  isDead(rank: number): boolean {
    const isLost = this.#dead.has(rank) || (this.#surroundings?.isDead(rank) ?? false);
    return isLost || (rank !== this.rank && this.#links[rank]?.endpoint.state === 'failed');
  }

  /** What it still sends names a communicator that nobody reads any more. */
  async expel(): Promise<void> {}

  prepare(request: Request, plan: Plan): Runnable {
    const { type, reduction } = request;
    const operation = reduction === undefined ? 0 : reductionCode(reduction, type);
    const program =
      plan.schedule === undefined
        ? { lanes: [], memory: [] }
        : bindProgram(
            plan.schedule,
            this.rank,
            request,
            (bytes) => new Uint8Array(bytes),
            (buffer) => this.#addon.addressOf(buffer as ArrayBuffer),
          );
    return new MessagingCall(this, {
      what: nameOf(request),
      program,
      agreement: new Agreement(this.rank, this.size, signatureOf(request, plan)),
      type: typeCode(type),
      operation,
      divisor: reduction === 'avg' ? (request.shards ?? this.size) : 1,
    });
  }

  // ---- running ----

  /** Beside the event loop. @throws the call's error, and the signal's reason. */
  async run(call: MessagingCall, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    this.#begin(call, false);
    const ended = new Promise<void>((resolve, reject) => {
      call.ended = (error) => (error === undefined ? resolve() : reject(error));
    });
    const abort = () => this.abort();
    signal?.addEventListener('abort', abort, { once: true });
    const timer = Number.isFinite(timeoutMs) ? setTimeout(() => this.#late(call, timeoutMs), timeoutMs) : undefined;
    this.#looking ??= setInterval(() => this.#look(), LOOK_MS);
    this.pump();
    try {
      await ended;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** On this thread. @throws the call's error. */
  runSync(call: MessagingCall, timeoutMs: number): void {
    for (const worker of this.#workers) {
      if (worker.context.provider === 'sim') {
        throw new CollectiveError('COLL_INVALID', 'the ranks of a simulated fabric share one thread: use the asynchronous form');
      }
      if (worker.polling)
        throw new CollectiveError('COLL_INVALID', 'a handler of a message cannot wait: use the asynchronous form');
    }
    this.#begin(call, true);
    let outcome: Error | undefined;
    let isOver = false;
    call.ended = (error) => {
      outcome = error;
      isOver = true;
    };
    this.pump();
    let idle = 0;
    let naps = 0;
    let deadline = 0;
    while (!isOver) {
      let n = 0;
      for (const worker of this.#workers) n += worker.poll();
      this.pump();
      if (n > 0) {
        idle = 0;
        naps = 0;
      } else if (++idle > SPINS) {
        const now = performance.now();
        if (deadline === 0) deadline = now + timeoutMs;
        else if (now > deadline) this.#late(call, timeoutMs);
        this.#look();
        this.wake(call); // one that fails waits for time to pass
        if (!isOver) Atomics.wait(napWords, 0, 0, ++naps < SHORT_NAPS ? SHORT_NAP_MS : LONG_NAP_MS);
        idle -= LOOKS; // several between two naps: a worker looks for deaths only now and then
      }
    }
    if (outcome !== undefined) throw outcome;
  }

  #begin(call: MessagingCall, isBlocking: boolean): void {
    if (!this.#isOpen) throw new CollectiveError('COLL_CLOSED', 'this communicator is closed');
    if (this.#end !== undefined) throw this.#errorOf(this.#end, call.what, Number.NaN);
    call.begin(this.#sequence, isBlocking);
    this.#sequence++;
    if (this.#active.size === 0) this.#listen();
    this.#active.add(call);
    this.#check(call);
  }

  /** A call that begins when a rank is gone already, or when word of an end had come before anybody listened. */
  #check(call: MessagingCall): void {
    for (let r = 0; r < this.size; r++) {
      if (r !== this.rank && this.#surroundings?.isLost(r)) this.#over({ kind: 'lost', rank: r, from: 0 }, true);
    }
    if (this.#end !== undefined && call.sequence >= this.#end.from) call.fail(this.#errorOf(this.#end, call.what, call.sequence));
  }

  /** Has a call advanced soon: by the synchronous call that runs, or when the event loop comes to it. */
  wake(call: MessagingCall): void {
    call.dirty = true;
    if (this.#isPumping || this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.pump();
    });
  }

  /** Advances every call that something happened to. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      for (let again = true; again; ) {
        again = false;
        for (const call of this.#active) {
          if (!call.dirty) continue;
          again = true;
          call.advance();
        }
      }
    } finally {
      this.#isPumping = false;
    }
  }

  /** A call is over. */
  finished(call: MessagingCall, error: Error | undefined): void {
    this.#active.delete(call);
    if (error === undefined || (error instanceof CollectiveError && error.code === 'COLL_MISMATCH')) {
      this.#ahead.add(call.sequence);
      while (this.#ahead.delete(this.#completed)) this.#completed++;
    }
    if (this.#active.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
    this.#unlisten();
  }

  // ---- transfers, for calls ----

  countSent(bytes: number): void {
    this.totals.bytesSent += bytes;
    this.totals.messages++;
  }

  /** False when the memory may be used again at once; else `done` is called. @throws what messaging throws. */
  post(
    peer: number,
    data: Payload,
    kind: number,
    sequence: number,
    channel: number,
    done: (error: Error | undefined) => void,
  ): boolean {
    const { worker, endpoint } = this.#linkTo(peer);
    const handle = worker.postSend(endpoint, data, tagLow(kind, sequence, channel), this.#tagHi, this.#context);
    if (handle === 0) return false;
    worker.own(handle, done);
    return true;
  }

  take(
    peer: number,
    into: Payload,
    kind: number,
    sequence: number,
    channel: number,
    done: (error: Error | undefined) => void,
  ): Transfer {
    const { worker, endpoint } = this.#linkTo(peer);
    const handle = worker.postRecv(into, tagLow(kind, sequence, channel), this.#tagHi, -1, -1, endpoint.source, this.#context);
    const transfer = worker.own(handle, done);
    if (!transfer.done && endpoint.state === 'failed') this.#over({ kind: 'lost', rank: peer, from: 0 }, true);
    return transfer;
  }

  /** own = own op other, in C. */
  reduce(own: number, other: number, elements: number, type: number, operation: number, divisor: number): void {
    const command = this.#command;
    command[0] = own;
    command[1] = other;
    command[2] = elements;
    command[3] = type;
    command[4] = operation;
    command[5] = divisor;
    this.#addon.reduce();
  }

  #linkTo(rank: number): Link {
    const link = this.#links[rank];
    if (link === undefined) throw new CollectiveError('COLL_SYSTEM', `there is no way from rank ${this.rank} to rank ${rank}`);
    return link;
  }

  // ---- ending ----

  /** A transfer of a call failed, or could not begin. */
  failed(call: MessagingCall, error: Error, peer: number): void {
    if (this.#end !== undefined) {
      call.fail(this.#errorOf(this.#end, call.what, call.sequence));
    } else if (MessagingError.is(error) && error.code === 'MSG_PEER_LOST') {
      this.#over({ kind: 'lost', rank: peer, from: 0 }, true);
    } else if (MessagingError.is(error) && error.code === 'MSG_CLOSED') {
      this.#over({ kind: 'closed', rank: this.rank, from: 0 }, true);
    } else {
      const cause =
        error instanceof CollectiveError ? error : new CollectiveError('COLL_SYSTEM', `${call.what} failed: ${error.message}`);
      call.fail(cause);
      this.#over({ kind: 'aborted', rank: this.rank, from: 0 }, true);
    }
  }

  #late(call: MessagingCall, timeoutMs: number): void {
    if (!call.running) return;
    call.fail(new CollectiveError('COLL_TIMEOUT', `${call.what} did not end within ${timeoutMs} ms; the communicator is broken`));
    this.#over({ kind: 'timeout', rank: this.rank, from: 0 }, true);
  }

  abort(): void {
    if (this.#isOpen) this.#over({ kind: 'aborted', rank: this.rank, from: 0 }, true);
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#over({ kind: 'closed', rank: this.rank, from: this.#completed }, true);
    this.#isOpen = false;
    for (const call of this.#active)
      call.fail(new CollectiveError('COLL_CLOSED', `${call.what}: this rank closed the communicator`));
    this.pump();
    this.#stopHearing?.();
    for (const worker of this.#workers) bury(worker, this.#context, this.#tagHi);
  }

  /** The communicator is over: calls under way end, and the others hear of it. The first reason counts, but a loss is noted in any case. */
  #over(end: End, tell: boolean): void {
    if (end.kind === 'lost' && end.rank !== this.rank) this.#dead.add(end.rank);
    if (this.#end !== undefined) return;
    this.#end = end;
    for (const call of this.#active) if (call.sequence >= end.from) call.fail(this.#errorOf(end, call.what, call.sequence));
    if (tell) this.#tell(end);
  }

  #errorOf(end: End, what: string, sequence: number): CollectiveError {
    switch (end.kind) {
      case 'lost':
        if (end.rank === this.rank)
          return new CollectiveError('COLL_PEER_LOST', `${what}: the other ranks took this one for dead`);
        return new RankLost(end.rank, what);
      case 'closed':
        return new CollectiveError('COLL_CLOSED', `${what}: rank ${end.rank} closed the communicator`);
      case 'timeout':
        return new CollectiveError('COLL_ABORTED', `${what}: rank ${end.rank} gave up waiting${sequence >= 0 ? '' : ' before'}`);
      case 'aborted':
        return new CollectiveError('COLL_ABORTED', `${what}: rank ${end.rank} aborted the communicator`);
    }
  }

  #tell(end: End): void {
    const words = payloadOf(Int32Array.of(END_KINDS.indexOf(end.kind), end.rank, end.from));
    for (const rank of this.#audience()) {
      const link = this.#links[rank];
      if (link === undefined || link.endpoint.state !== 'ready' || link.endpoint.closedByPeer || link.worker.closed) continue;
      try {
        this.post(rank, words, TAG_CONTROL, 0, 0, () => {});
      } catch {
        // It is gone too.
      }
    }
  }

  #audience(): number[] {
    const others = Array.from({ length: this.size }, (_, r) => r).filter((r) => r !== this.rank && !this.#dead.has(r));
    if (this.size <= FEW_RANKS) return others;
    return others.filter((r) => {
      const distance = Math.min((r - this.rank + this.size) % this.size, (this.rank - r + this.size) % this.size);
      return Number.isInteger(Math.log2(distance));
    });
  }

  /** While calls run, word of an end may come from anybody. */
  #listen(): void {
    for (const worker of this.#workers) this.#listenTo(worker);
  }

  #listenTo(worker: Worker): void {
    const words = new Int32Array(CONTROL_WORDS);
    const handle = worker.postRecv(words, tagLow(TAG_CONTROL, 0, 0), this.#tagHi, -1, -1, undefined, this.#context);
    const transfer = worker.own(handle, (error) => {
      if (error !== undefined) return;
      this.#told(words);
      if (this.#active.size > 0 && this.#isOpen) this.#listenTo(worker);
    });
    if (!transfer.done) this.#control.push(transfer);
  }

  #unlisten(): void {
    for (const transfer of this.#control.splice(0)) if (!transfer.done) transfer.cancel();
  }

  #told(words: Int32Array): void {
    const [kind, rank, from] = words;
    this.#over({ kind: END_KINDS[kind], rank, from }, END_KINDS[kind] !== 'closed');
  }

  /** Looks for ranks that died or left. */
  #look(): void {
    const { size, rank } = this;
    for (let r = 0; r < size; r++) {
      if (r === rank) continue;
      if (this.#surroundings?.isLost(r)) this.#over({ kind: 'lost', rank: r, from: 0 }, true);
    }
    const now = performance.now();
    for (const call of this.#active) {
      for (const r of call.waitsFor()) {
        const endpoint = this.#links[r]?.endpoint;
        const isGone =
          endpoint !== undefined &&
          (endpoint.closedByPeer || endpoint.state === 'closed' || endpoint.state === 'failed' || this.#surroundings?.isDead(r));
        if (!isGone) continue;
        const since = this.#left.get(r) ?? now;
        this.#left.set(r, since);
        if (now - since > LEFT_MS) this.#over({ kind: 'lost', rank: r, from: 0 }, true);
      }
    }
  }
}

function tagLow(kind: number, sequence: number, channel: number): number {
  return (kind << 30) | ((sequence & 0x3fffff) << 8) | channel;
}

/** FNV-1a with a seed, 31 bits. */
function hash(text: string, seed: number): number {
  let h = seed;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h & 0x7fffffff;
}
