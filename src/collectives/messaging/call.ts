/**
 * One call over messages, ready to run: agreement first, then the lanes of the program, each in order, as far as what they wait for has come.
 *
 *   begin ─> agreement ─┬─ all agree ──> lanes ──> done
 *                       └─ not ──> statements ──> COLL_MISMATCH
 *
 * The call never waits itself. `advance` goes on as far as it can; requests that are under way call back and have it advanced again. The executor decides
 * who calls `advance`: a loop on the caller's thread, or the event loop.
 */

import type { Payload, Request as Transfer } from '../../messaging/index.js';
import { payloadOf } from '../../messaging/payload.js';
import { OPCODES } from '../../schedule/encoding.js';
import { siteOf, traceHere } from '../call-site.js';
import { CollectiveError } from '../errors.js';
import type { Runnable, RunTimes } from '../executor.js';
import { Agreement, type Verdict } from './agreement.js';
import type { BoundProgram, Step } from './bound-program.js';
import type { MessagingExecutor } from './executor.js';

/** What a message is about: the upper bits of the lower half of its tag. */
const TAG_DATA = 0;
const TAG_ENTRY = 1;
export const TAG_CONTROL = 2;
const TAG_STATEMENT = 3;

/** How long a call that failed waits for receives that cannot be taken back, ms. */
const SETTLE_MS = 200;

const { send, receive, receiveReduce, copy, reduce, signal, wait, after } = OPCODES;

/** Something in order: a lane of the program, or the agreement. */
class Track {
  readonly steps: readonly Step[];
  at = 0;
  /** Operations done, `after`s not counted. */
  completed = 0;
  /** Messages of the current step that are under way. */
  outstanding = 0;
  begun = false;
  /** Whose messages the current step waits for. */
  from = -1;
  readonly receives: Transfer[] = [];

  constructor(steps: readonly Step[]) {
    this.steps = steps;
  }

  reset(): void {
    this.at = 0;
    this.completed = 0;
    this.outstanding = 0;
    this.begun = false;
    this.receives.length = 0;
  }

  get isReceiving(): boolean {
    return this.receives.some(({ done }) => !done);
  }
}

export interface CallInit {
  /** 'allreduce of 1024 x f32' */
  readonly what: string;
  readonly program: BoundProgram;
  readonly agreement: Agreement;
  /** Codes of native/reduce.h. */
  readonly type: number;
  readonly operation: number;
  /** Of an average: applied where a chunk is finished. */
  readonly divisor: number;
}

export class MessagingCall implements Runnable {
  readonly what: string;
  /** Position among the calls of the communicator. */
  sequence = -1;
  running = false;
  /** To be advanced. */
  dirty = false;
  /** Called at the end, once per run. */
  ended: ((error: Error | undefined) => void) | undefined;
  readonly #executor: MessagingExecutor;
  readonly #init: CallInit;
  readonly #entry: Track;
  readonly #lanes: readonly Track[];
  readonly #tracks: readonly Track[];
  #phase: 'agreeing' | 'telling' | 'moving' | 'failing' = 'agreeing';
  #verdict: Verdict | undefined;
  #rooms: Uint8Array[] = [];
  #trace: Error | undefined;
  #error: Error | undefined;
  #settling: NodeJS.Timeout | undefined;
  #failedMs = 0;
  #isTimed = false;
  #beganMs = 0;
  #metMs = 0;
  #endedMs = 0;

  constructor(executor: MessagingExecutor, init: CallInit) {
    this.#executor = executor;
    this.#init = init;
    this.what = init.what;
    this.#entry = new Track([]);
    this.#lanes = init.program.lanes.map((steps) => new Track(steps));
    this.#tracks = [this.#entry, ...this.#lanes];
  }

  run(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    return this.#executor.run(this, timeoutMs, signal);
  }

  runSync(timeoutMs: number): void {
    this.#executor.runSync(this, timeoutMs);
  }

  measure(): void {
    this.#isTimed = true;
  }

  get times(): RunTimes {
    return { beganMs: this.#beganMs, metMs: this.#metMs, endedMs: this.#endedMs };
  }

  /** @param isBlocking the caller's frames stay on the stack, so where it stands can be looked up when it matters. @throws COLL_INVALID while it runs. */
  begin(sequence: number, isBlocking: boolean): void {
    if (this.running) throw new CollectiveError('COLL_INVALID', `${this.what} is under way already`);
    this.sequence = sequence;
    this.running = true;
    this.dirty = true;
    this.#phase = 'agreeing';
    this.#error = undefined;
    this.#trace = isBlocking ? undefined : traceHere();
    for (const track of this.#tracks) track.reset();
    this.#init.agreement.begin();
    if (this.#isTimed) this.#beganMs = nowMs();
  }

  /** Ranks whose messages it waits for now. */
  waitsFor(): number[] {
    return this.#tracks.filter(({ isReceiving }) => isReceiving).map(({ from }) => from);
  }

  /** Goes on as far as it can. Never throws: it ends the call instead. */
  advance(): void {
    this.dirty = false;
    try {
      if (this.#phase === 'agreeing') this.#agree();
      if (this.#phase === 'telling') this.#tell();
      if (this.#phase === 'moving') this.#move();
    } catch (error) {
      this.#executor.failed(this, error as Error, this.#current);
    }
    if (this.#phase === 'failing') this.#settle();
  }

  /** Whoever the step that threw talks to. */
  #current = -1;

  #agree(): void {
    const track = this.#entry;
    const { agreement } = this.#init;
    while (track.at < agreement.rounds) {
      if (!track.begun) {
        track.begun = true;
        this.#take(track, agreement.from(track.at), agreement.in, TAG_ENTRY, track.at);
        this.#post(track, agreement.to(track.at), agreement.out, TAG_ENTRY, track.at);
      }
      if (track.outstanding > 0) return;
      agreement.merge();
      this.#next(track);
    }
    this.#verdict = agreement.verdict();
    this.#phase = this.#verdict === undefined ? 'moving' : 'telling';
    if (this.#isTimed) this.#metMs = nowMs();
  }

  #tell(): void {
    const track = this.#entry;
    const { low, high } = this.#verdict as Verdict;
    const { rank, size } = this.#executor;
    const site = siteOf(this.#trace ?? traceHere());
    if (!track.begun) {
      track.begun = true;
      const telling = [low, high].filter((r) => r !== rank);
      this.#rooms = telling.map(() => Agreement.room());
      for (const [i, r] of telling.entries()) this.#take(track, r, payloadOf(this.#rooms[i]), TAG_STATEMENT, 0);
      if (rank === low || rank === high) {
        const statement = this.#init.agreement.statement(site);
        for (let r = 0; r < size; r++) if (r !== rank) this.#post(track, r, statement, TAG_STATEMENT, 0);
      }
    }
    if (track.outstanding > 0) return;
    const said = this.#rooms.map((bytes) => ({ bytes, length: endOf(bytes) }));
    this.fail(new CollectiveError('COLL_MISMATCH', this.#init.agreement.describe(site, said)));
  }

  #move(): void {
    let isMoving = true;
    let isDone = true;
    while (isMoving) {
      isMoving = false;
      isDone = true;
      for (const track of this.#lanes) {
        while (track.at < track.steps.length && this.#step(track)) isMoving = true;
        if (track.at < track.steps.length) isDone = false;
      }
    }
    if (isDone && this.#phase === 'moving') this.#end(undefined);
  }

  /** False: the step waits. */
  #step(track: Track): boolean {
    if (this.#phase !== 'moving') return false;
    const step = track.steps[track.at];
    switch (step.code) {
      case after:
        if (this.#lanes[step.peer].completed < step.count) return false;
        track.at++;
        return true;
      case send:
      case signal:
        if (!track.begun) {
          track.begun = true;
          this.#executor.countSent(step.bytes);
          for (const message of step.messages) this.#post(track, step.peer, message, TAG_DATA, step.channel);
        }
        if (track.outstanding > 0) return false;
        break;
      case receive:
      case receiveReduce:
      case wait:
        if (!track.begun) {
          track.begun = true;
          for (const message of step.messages) this.#take(track, step.peer, message, TAG_DATA, step.channel);
        }
        if (track.outstanding > 0) return false;
        if (step.code === receiveReduce) this.#reduce(step);
        break;
      case copy:
        for (const { own, other } of step.work) own.bytes.set(other.bytes);
        break;
      case reduce:
        this.#reduce(step);
        break;
    }
    this.#next(track);
    return true;
  }

  #next(track: Track): void {
    track.at++;
    track.completed++;
    track.begun = false;
    track.receives.length = 0;
  }

  #reduce({ work, finish }: Step): void {
    const { type, operation, divisor } = this.#init;
    for (const { own, other, elements } of work) {
      if (elements > 0) this.#executor.reduce(own.address, other.address, elements, type, operation, finish ? divisor : 1);
    }
  }

  #post(track: Track, peer: number, message: Payload, kind: number, channel: number): void {
    this.#current = peer;
    track.outstanding++;
    const done = (error: Error | undefined) => this.#transferred(track, peer, error);
    if (!this.#executor.post(peer, message, kind, this.sequence, channel, done)) track.outstanding--;
  }

  #take(track: Track, peer: number, message: Payload, kind: number, channel: number): void {
    this.#current = track.from = peer;
    track.outstanding++;
    const done = (error: Error | undefined) => this.#transferred(track, peer, error);
    const transfer = this.#executor.take(peer, message, kind, this.sequence, channel, done);
    if (transfer.done) return;
    track.receives.push(transfer);
    if (this.#phase === 'failing') transfer.cancel(); // the peer turned out to be gone
  }

  #transferred(track: Track, peer: number, error: Error | undefined): void {
    track.outstanding--;
    if (error !== undefined && this.running && this.#phase !== 'failing') this.#executor.failed(this, error, peer);
    this.#executor.wake(this);
  }

  /** Ends the call with an error, once nothing writes into its memory any more. */
  fail(error: Error): void {
    if (!this.running || this.#phase === 'failing') return;
    this.#phase = 'failing';
    this.#error = error;
    for (const { receives } of this.#tracks) for (const transfer of receives) if (!transfer.done) transfer.cancel();
    this.#settling = setTimeout(() => this.#end(this.#error), SETTLE_MS);
    this.#failedMs = performance.now();
    this.#executor.wake(this);
  }

  #settle(): void {
    const isQuiet = !this.#tracks.some(({ isReceiving }) => isReceiving);
    if (this.running && (isQuiet || performance.now() - this.#failedMs > SETTLE_MS)) this.#end(this.#error);
  }

  #end(error: Error | undefined): void {
    if (!this.running) return;
    clearTimeout(this.#settling);
    this.#settling = undefined;
    this.running = false;
    this.dirty = false;
    this.#trace = undefined;
    if (this.#isTimed) this.#endedMs = nowMs();
    const { ended } = this;
    this.ended = undefined;
    this.#executor.finished(this, error);
    ended?.(error);
  }
}

/** Text ends where zeros begin. */
function endOf(bytes: Uint8Array): number {
  const end = bytes.indexOf(0);
  return end < 0 ? bytes.length : end;
}

/** Of the monotonic clock. */
function nowMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}
