/**
 * The coordinator of a job: it holds the store and the list of ranks, hears of every end, and tells the others. One per job, in the launcher
 * (`verbena run`) or in a thread of rank 0 (every other launcher), so that it works while JavaScript of ranks is blocked.
 *
 *   joining      every rank says who it is; when all have come, each gets the whole list and a ticket for its lifeline
 *   running      the native thread of each rank holds a lifeline here; its end without a goodbye is the loss of the rank
 *   stalled      a rank waits longer than the stall time: all are asked where they wait, and the report goes to everybody
 */

import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { LaunchError, takenForDead } from './errors.js';
import { encodeLifeline, FRAME, type LifelineFrame, LifelineReader } from './lifeline.js';
import { type Member, nameOf, rankList, ranksInWords } from './member.js';
import { stallReport, type Wait, type Whereabouts } from './stall-report.js';
import type { Frame } from './store/frame.js';
import { type Client, StoreServer } from './store/server.js';
import { StoreTable } from './store/table.js';

export interface CoordinatorOptions {
  readonly size: number;
  readonly secret: string;
  readonly version: string;
  /** Address to listen on. Default 127.0.0.1. */
  readonly address?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Bound of the store, bytes. Default 64 MiB. */
  readonly maxBytes?: number;
  /** The launcher knows how a process ended and says so; a closed lifeline waits this long for it, ms. Default 0. */
  readonly confirmMs?: number;
  /** The machine this runs on: ranks elsewhere send heartbeats. Default: all are here. */
  readonly machine?: string;
  /** Between machines, ms. Default 1,000. */
  readonly heartbeatMs?: number;
  /** A machine that says nothing for so long has vanished, ms. Default 10,000. */
  readonly silenceMs?: number;
  /** A line for whoever runs the job. */
  log(line: string): void;
}

/** How a rank ended. */
interface End {
  readonly state: 'left' | 'lost';
  readonly reason: string;
}

interface Lifeline {
  readonly socket: Socket;
  /** Heartbeats are exchanged. */
  readonly beats: boolean;
  heardAt: number;
}

/** How much earlier than rank 0 the others are told that the world cannot come together, ms. */
const TELL_OTHERS_MS = 250;

/** Ranks have this long to say where they wait, ms. */
const ANSWER_MS = 300;

export class Coordinator {
  readonly #options: CoordinatorOptions;
  readonly #table: StoreTable;
  readonly #members = new Map<number, Member>();
  readonly #joining = new Map<number, { client: Client; id: unknown; timer: NodeJS.Timeout }>();
  readonly #tickets = new Map<string, number>();
  readonly #lifelines = new Map<number, Lifeline>();
  readonly #ends = new Map<number, End>();
  readonly #waits = new Map<number, Wait | undefined>();
  readonly #gone = new Set<() => void>();
  readonly #beat: NodeJS.Timeout;
  #server!: StoreServer;
  #reporting = false;
  /** Why the ranks never came together. */
  #failed: LaunchError | undefined;

  private constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.#table = new StoreTable(options.maxBytes === undefined ? {} : { maxBytes: options.maxBytes });
    // What has come meanwhile is heard first: this process may have been the one that stood still.
    const beat = () => void setImmediate(() => this.#exchangeBeats());
    this.#beat = setInterval(beat, options.heartbeatMs ?? 1000).unref();
  }

  /** @throws LAUNCH_PORT_IN_USE, LAUNCH_HOST, LAUNCH_INVALID. */
  static async listen(options: CoordinatorOptions): Promise<Coordinator> {
    const coordinator = new Coordinator(options);
    coordinator.#server = await StoreServer.listen({
      secret: options.secret,
      version: options.version,
      address: options.address ?? '127.0.0.1',
      port: options.port ?? 0,
      log: options.log,
      request: (client, frame) => coordinator.#request(client, frame),
      lifeline: (socket, first) => coordinator.#lifeline(socket, first),
    });
    return coordinator;
  }

  get port(): number {
    return this.#server.port;
  }

  /** Whether the rank has called init(). */
  hasJoined(rank: number): boolean {
    return this.#members.has(rank);
  }

  /** Resolves when every rank that joined has left or is lost, except `exception`; at the latest after `timeoutMs`. */
  async quiet(exception: number, timeoutMs: number): Promise<boolean> {
    const busy = () => [...this.#members.keys()].some((rank) => rank !== exception && !this.#ends.has(rank));
    const deadline = performance.now() + timeoutMs;
    while (busy() && performance.now() < deadline) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, deadline - performance.now());
        this.#gone.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return !busy();
  }

  /** Says goodbye and ends. */
  close(): void {
    clearInterval(this.#beat);
    this.#broadcast(encodeLifeline(FRAME.bye));
    for (const { socket } of this.#lifelines.values()) socket.end();
    for (const { timer } of this.#joining.values()) clearTimeout(timer);
    this.#server.close();
  }

  /** A rank ended in peace. The first word about a rank counts. */
  left(rank: number): void {
    this.#end(rank, { state: 'left', reason: 'finished' });
  }

  /** A rank died. */
  lost(rank: number, reason: string): void {
    this.#end(rank, { state: 'lost', reason });
  }

  #end(rank: number, end: End): void {
    if (this.#ends.has(rank)) return;
    this.#ends.set(rank, end);
    // A rank that was only silent hears of its own loss when it goes on.
    this.#broadcast(encodeLifeline(end.state === 'left' ? FRAME.left : FRAME.lost, rank, 0, end.reason));
    const error = this.#lossError();
    if (error) {
      this.#table.failBarriers(this.#options.size, error);
      if (this.#joining.size > 0) this.#giveUp(error);
    }
    const gone = [...this.#gone];
    this.#gone.clear();
    for (const tell of gone) tell();
  }

  /** The error for whoever waits for all ranks, when that cannot happen any more. */
  #lossError(): LaunchError | undefined {
    for (const [rank, { state, reason }] of this.#ends) {
      if (state === 'left' && this.#members.has(rank)) continue;
      const member = this.#members.get(rank);
      const name = member ? nameOf(member) : `rank ${rank}`;
      const words = state === 'lost' ? `${name} is lost: ${reason}` : `${name} ended without calling init()`;
      return new LaunchError(
        'LAUNCH_RANK_LOST',
        `${words}. What waits for all ${this.#options.size} ranks cannot complete: look at the output of that rank first.`,
        { rank },
      );
    }
    return undefined;
  }

  // ---- requests ----

  #request(client: Client, frame: Frame): void {
    const { id, op, key, timeoutMs } = frame.header as { id: unknown; op: string; key: string; timeoutMs: number };
    const answer = (header: object, value?: Uint8Array) => client.reply({ id, ...header }, value);
    const fail = (error: unknown) => {
      const { code = 'LAUNCH_INVALID', message, rank } = error as LaunchError;
      answer({ error: { code, message, rank } });
    };
    const later = <T>({ done, cancel }: { done: Promise<T>; cancel(): void }, reply: (value: T) => void) => {
      client.endings.add(cancel);
      done.then(reply, fail).finally(() => client.endings.delete(cancel));
    };
    const give = (value: Uint8Array | undefined) => answer({ found: value !== undefined }, value);
    try {
      const end = this.#ends.get(client.rank ?? -1);
      if (end?.state === 'lost') throw new LaunchError('LAUNCH_RANK_LOST', takenForDead(end.reason), { rank: client.rank });
      if (op === 'set') {
        this.#table.set(key, frame.value);
        answer({});
      } else if (op === 'get') give(this.#table.get(key));
      else if (op === 'wait') later(this.#table.wait(key, timeoutMs), give);
      else if (op === 'add') answer({ sum: this.#table.add(key, frame.header['amount'] as number) });
      else if (op === 'delete') answer({ found: this.#table.delete(key) });
      else if (op === 'compareAndSet') {
        const length = frame.header['expectedBytes'] as number;
        const expected = length < 0 ? undefined : frame.value.subarray(0, length);
        give(this.#table.compareAndSet(key, expected, frame.value.slice(Math.max(0, length))));
      } else if (op === 'barrier') this.#barrier(client, frame.header['count'] as number, key, timeoutMs, later, answer);
      else if (op === 'join') this.#join(client, id, frame.header, timeoutMs);
      else throw new LaunchError('LAUNCH_INVALID', `the store has no operation '${op}'`);
    } catch (error) {
      fail(error);
    }
  }

  #barrier(
    client: Client,
    count: number,
    name: string,
    timeoutMs: number,
    later: (pending: { done: Promise<void>; cancel(): void }, reply: () => void) => void,
    answer: (header: object) => void,
  ): void {
    const { size } = this.#options;
    const loss = this.#lossError();
    if (loss && count >= size) throw loss;
    const missing = (arrived: string[]) => {
      const known = new Set(arrived);
      const absent = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !known.has(`rank ${rank}`));
      return count === size ? `Missing: ${ranksInWords(absent)}.` : `Arrived: ${arrived.join(', ')}.`;
    };
    const who = client.rank === undefined ? `client ${client.id}` : `rank ${client.rank}`;
    later(this.#table.barrier(name, who, count, timeoutMs, missing), () => answer({}));
  }

  #join(client: Client, id: unknown, header: Frame['header'], timeoutMs: number): void {
    const { size } = this.#options;
    const { size: theirs, member } = header as unknown as { size: number; member: Member };
    const { rank } = member;
    const name = nameOf(member);
    if (theirs !== size) {
      throw new LaunchError(
        'LAUNCH_SIZE_MISMATCH',
        `${name} was told that the world has ${theirs} ranks, and the coordinator was told ${size}. All ranks of a job need the same size: check ` +
          'WORLD_SIZE or VERBENA_SIZE, and that no rank of another job has the same address of the store.',
      );
    }
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) {
      throw new LaunchError('LAUNCH_ENVIRONMENT', `${name}: ranks of this job are 0 to ${size - 1}; check RANK or VERBENA_RANK`);
    }
    const loss = this.#failed ?? this.#lossError();
    const holder = loss ? undefined : this.#members.get(rank); // who gave up and comes again hears why it is too late
    if (holder) {
      throw new LaunchError(
        'LAUNCH_DUPLICATE_RANK',
        `rank ${rank} is taken by ${nameOf(holder)}, and pid ${member.pid} on ${member.host.name} says it is rank ${rank} as well. Two processes got ` +
          'the same RANK or VERBENA_RANK, or a rank started a child that calls init() itself: give every process its own rank.',
        { rank },
      );
    }
    this.#members.set(rank, member);
    client.rank = rank;
    // Until its lifeline stands, the end of this connection is the end of the rank.
    client.endings.add(() => {
      if (!this.#lifelines.has(rank) && !this.#failed) this.#confirmLoss(rank, 'it left init(): its process ended, or gave up');
    });
    const timer = setTimeout(() => this.#giveUp(this.#lateError(timeoutMs)), timeoutMs);
    this.#joining.set(rank, { client, id, timer });
    if (loss) this.#answerJoin(rank, loss);
    else if (this.#members.size === size) for (const waiting of [...this.#joining.keys()]) this.#answerJoin(waiting);
  }

  /** The world cannot come together: the first reason goes to everybody, also to those who come later. Rank 0 may hold this store: it is told, and ends, after the others. */
  #giveUp(error: LaunchError): void {
    const reason = this.#failed ?? error;
    this.#failed = reason;
    for (const rank of [...this.#joining.keys()]) if (rank !== 0) this.#answerJoin(rank, reason);
    setTimeout(() => this.#answerJoin(0, reason), TELL_OTHERS_MS);
  }

  #lateError(timeoutMs: number): LaunchError {
    const { size } = this.#options;
    const absent = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !this.#members.has(rank));
    return new LaunchError(
      'LAUNCH_TIMEOUT',
      `${this.#members.size} of ${size} ranks called init() within ${timeoutMs} ms; ${ranksInWords(absent)} never arrived (present: ` +
        `${rankList(this.#members.keys())}). Check that the launcher started ${size} processes, that none ended before init(), and that all have the ` +
        'same address of the store; a slow start needs init({ timeoutMs }).',
      { rank: absent[0] },
    );
  }

  #answerJoin(rank: number, error?: LaunchError): void {
    const waiting = this.#joining.get(rank);
    if (!waiting) return;
    this.#joining.delete(rank);
    clearTimeout(waiting.timer);
    const { client, id } = waiting;
    if (error) {
      client.reply({ id, error: { code: error.code, message: error.message, rank: error.rank } });
      return;
    }
    const ticket = randomBytes(24).toString('hex');
    this.#tickets.set(ticket, rank);
    const beats = this.#beats(rank);
    const { heartbeatMs = 1000, silenceMs = 10_000 } = this.#options;
    client.reply({
      id,
      members: [...this.#members.values()].sort((a, b) => a.rank - b.rank),
      ticket,
      heartbeatMs: beats ? heartbeatMs : 0,
      silenceMs: beats ? silenceMs : 0,
    });
  }

  /** Heartbeats are for other machines: on this one the kernel tells at once, and a stopped process is not dead. */
  #beats(rank: number): boolean {
    const { machine } = this.#options;
    return machine !== undefined && this.#members.get(rank)?.host.machine !== machine;
  }

  // ---- lifelines ----

  #lifeline(socket: Socket, first: Buffer): void {
    const reader = new LifelineReader();
    let rank = -1;
    const take = (chunk: Buffer) => {
      const frames = reader.push(chunk);
      if (!frames) {
        socket.destroy();
        return;
      }
      const line = this.#lifelines.get(rank);
      if (line) line.heardAt = performance.now();
      for (const frame of frames) {
        if (frame.type === FRAME.attach) rank = this.#attach(socket, frame);
        else if (rank >= 0) this.#hear(rank, frame);
        if (rank < 0) return;
      }
    };
    socket.on('data', take);
    socket.on('close', () => {
      if (rank < 0 || this.#lifelines.get(rank)?.socket !== socket) return;
      this.#lifelines.delete(rank);
      this.#confirmLoss(rank, 'its connection closed: the process ended without a word');
    });
    take(first);
  }

  #attach(socket: Socket, frame: LifelineFrame): number {
    const rank = this.#tickets.get(frame.text);
    if (rank === undefined) {
      this.#options.log(`store: refused ${socket.remoteAddress}:${socket.remotePort}: a lifeline without a valid ticket`);
      socket.destroy();
      return -1;
    }
    this.#tickets.delete(frame.text);
    socket.setNoDelay(true);
    this.#lifelines.set(rank, { socket, beats: this.#beats(rank), heardAt: performance.now() });
    for (const [other, { state, reason }] of this.#ends) {
      socket.write(encodeLifeline(state === 'left' ? FRAME.left : FRAME.lost, other, 0, reason));
    }
    return rank;
  }

  #hear(rank: number, frame: LifelineFrame): void {
    if (frame.type === FRAME.leave) {
      if (frame.code === 0) this.left(rank);
      else this.#confirmLoss(rank, `its process exits with code ${frame.code}`);
    } else if (frame.type === FRAME.waiting) {
      this.#waits.set(rank, frame.code < 0 ? undefined : parseWait(frame.text));
    } else if (frame.type === FRAME.stall && !this.#reporting) {
      this.#reporting = true;
      void this.#report().finally(() => {
        this.#reporting = false;
      });
    }
  }

  #confirmLoss(rank: number, reason: string): void {
    const { confirmMs = 0 } = this.#options;
    if (confirmMs === 0) this.lost(rank, reason);
    else setTimeout(() => setImmediate(() => this.lost(rank, reason)), confirmMs).unref(); // what has come meanwhile is heard first, however late this thread is
  }

  #broadcast(frame: Buffer): void {
    for (const { socket } of this.#lifelines.values()) if (socket.writable) socket.write(frame);
  }

  #exchangeBeats(): void {
    const { silenceMs = 10_000 } = this.#options;
    const beat = encodeLifeline(FRAME.beat);
    for (const [rank, line] of this.#lifelines) {
      if (!line.beats) continue;
      if (performance.now() - line.heardAt > silenceMs) {
        this.lost(rank, `no word from its host for ${silenceMs} ms: the host or the network between is gone`);
        line.socket.destroy();
      } else if (line.socket.writable) line.socket.write(beat);
    }
  }

  // ---- stalls ----

  /** Where every rank is now. Takes up to 300 ms when somebody does not answer. */
  async whereabouts(): Promise<Map<number, Whereabouts>> {
    this.#waits.clear();
    this.#broadcast(encodeLifeline(FRAME.where));
    const asked = this.#lifelines.size;
    const deadline = performance.now() + ANSWER_MS;
    while (this.#waits.size < asked && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
    const where = new Map<number, Whereabouts>();
    for (let rank = 0; rank < this.#options.size; rank++) where.set(rank, this.#whereIs(rank));
    return where;
  }

  #whereIs(rank: number): Whereabouts {
    const end = this.#ends.get(rank);
    if (end) return end.state === 'left' ? { state: 'left' } : { state: 'lost', reason: end.reason };
    if (!this.#lifelines.has(rank)) return this.#joining.has(rank) ? joiningWait : { state: 'elsewhere' };
    if (!this.#waits.has(rank)) return { state: 'silent' };
    const wait = this.#waits.get(rank);
    return wait ? { state: 'waiting', wait } : { state: 'elsewhere' };
  }

  async #report(): Promise<void> {
    const text = stallReport(await this.whereabouts());
    this.#options.log(text);
    this.#broadcast(encodeLifeline(FRAME.report, -1, 0, text));
  }
}

const joiningWait: Whereabouts = { state: 'waiting', wait: { site: 'init()', peer: -1, detail: -1, ageMs: 0 } };

/** "peer detail age site", as native/liveness.c writes it. */
function parseWait(text: string): Wait | undefined {
  const match = /^(-?\d+) (-?\d+) (\d+) (.*)$/s.exec(text);
  if (!match) return undefined;
  return { peer: Number(match[1]), detail: Number(match[2]), ageMs: Number(match[3]), site: match[4] };
}
