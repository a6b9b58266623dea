/** The executor of ranks that share memory: requests become blocks that C runs (shared-memory/). */

import { windowLength } from '../schedule/split.js';
import { describeMismatch, type Statement, signatureOf, siteOf, traceHere } from './call-site.js';
import { reductionCode, typeCode, type Vector } from './element.js';
import { CollectiveError } from './errors.js';
import type { Exchange, Patience } from './exchange.js';
import type { Executor, Runnable, RunTimes } from './executor.js';
import type { Plan } from './plan.js';
import { nameOf, type Request, splitOf, WIDTHS } from './request.js';
import { type BoundSchedule, bindSchedule } from './shared-memory/bound-schedule.js';
import { AT, type CallBuffer } from './shared-memory/call.js';
import { type Call, SharedMemoryExecutor } from './shared-memory/executor.js';
import { StatementPage } from './statement-page.js';

export class HostExecutor implements Executor {
  readonly kind = 'shared-memory';
  readonly #rank: number;
  readonly #size: number;
  readonly #memory: SharedMemoryExecutor;
  readonly #page: StatementPage;
  readonly #bound = new WeakMap<Plan, BoundSchedule>();
  #isOpen = true;

  private constructor(rank: number, size: number, memory: SharedMemoryExecutor, page: StatementPage) {
    this.#rank = rank;
    this.#size = size;
    this.#memory = memory;
    this.#page = page;
  }

  /** All ranks call it. @throws COLL_INVALID when ranks live on several hosts, COLL_SYSTEM, RankLost. */
  static async open(rank: number, size: number, exchange: Exchange, key: string, patience: Patience): Promise<HostExecutor> {
    const memory = await SharedMemoryExecutor.open(rank, size, exchange, key, patience);
    try {
      return new HostExecutor(rank, size, memory, await StatementPage.open(rank, size, exchange, key, patience));
    } catch (error) {
      memory.close();
      throw error;
    }
  }

  get totals(): SharedMemoryExecutor['totals'] {
    return this.#memory.totals;
  }

  get completed(): number {
    return this.#memory.completed;
  }

  isDead(rank: number): boolean {
    return this.#memory.isDead(rank);
  }

  expel(rank: number): Promise<void> {
    return this.#memory.expel(rank);
  }

  abort(): void {
    this.#memory.abort();
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#memory.close();
    this.#page.close();
  }

  prepare(request: Request, plan: Plan): Runnable {
    const { collective, buffers, count, type, reduction, root = 0 } = request;
    const kept: unknown[] = [plan, buffers];
    const bound = plan.schedule === undefined ? undefined : this.#bind(plan);
    if (bound !== undefined) kept.push(bound);
    const called = bound === undefined ? buffers.map((data) => this.#whole(data)) : this.#pieces(request, bound, kept);
    const call = this.#memory.call(
      nameOf(request),
      kept,
      {
        collective,
        method: plan.method,
        op: reduction === undefined ? 0 : reductionCode(reduction, type),
        type: typeCode(type),
        root,
        divisor: reduction === 'avg' ? (request.shards ?? this.#size) : 1,
        identity: identityOf(request, plan),
        count,
        program: bound === undefined ? 0 : this.#memory.addressOf(bound.program),
      },
      called,
    );
    return new HostCall(this.#memory, call, new Mismatches(this.#rank, this.#page, call, request, plan));
  }

  #bind(plan: Plan): BoundSchedule {
    let bound = this.#bound.get(plan);
    if (bound === undefined) {
      bound = bindSchedule(plan.schedule as NonNullable<Plan['schedule']>, this.#rank);
      this.#bound.set(plan, bound);
    }
    return bound;
  }

  #whole(data: Vector | undefined): CallBuffer {
    const place = data === undefined ? NOWHERE : this.#memory.locate(data);
    const bytes = data?.byteLength ?? 0;
    return { ...place, bytes, offsets: 0, first: 0, window: 0, exposed: true, input: true, output: true };
  }

  #pieces(request: Request, { schedule, buffers: specs }: BoundSchedule, kept: unknown[]): CallBuffer[] {
    const { collective, buffers, type, root = 0, counts = [] } = request;
    const single = specs.filter(({ user }) => user).length === 1;
    return specs.map(({ user, window, exposed }, id): CallBuffer => {
      const split = splitOf(request, id, user, schedule.chunks);
      const data = user ? buffers[id] : undefined;
      const empty = user && data === undefined;
      const place = data === undefined || data.length === 0 ? NOWHERE : this.#memory.locate(data);
      let offsets = 0;
      if (counts[user ? id : 0] !== undefined) {
        const table = Float64Array.from({ length: split.chunks + 1 }, (_, c) => split.offset(c));
        kept.push(table);
        offsets = this.#memory.addressOf(table);
      }
      return {
        ...place,
        bytes: empty ? 0 : windowLength(split, window) * WIDTHS[type],
        offsets,
        first: window.first,
        window: window.count,
        exposed,
        input: user && (collective === 'broadcast' ? this.#rank === root : id === 0),
        output: user && (id === 1 || single),
      };
    });
  }
}

const NOWHERE = { address: 0, handle: -1 };

/** Makes a mismatch say what both ranks called and where. Other errors stay what they are. */
class Mismatches {
  readonly #rank: number;
  readonly #page: StatementPage;
  readonly #call: Call;
  readonly #request: Request;
  readonly #plan: Plan;

  constructor(rank: number, page: StatementPage, call: Call, request: Request, plan: Plan) {
    this.#rank = rank;
    this.#page = page;
    this.#call = call;
    this.#request = request;
    this.#plan = plan;
  }

  async explain(error: unknown, trace: Error): Promise<unknown> {
    if (!isMismatch(error)) return error;
    const own = this.#statement(trace);
    return this.#inWords(error, own, await this.#page.hear(this.#other, this.#page.tell(own)));
  }

  explainSync(error: unknown, trace: Error): unknown {
    if (!isMismatch(error)) return error;
    const own = this.#statement(trace);
    return this.#inWords(error, own, this.#page.hearSync(this.#other, this.#page.tell(own)));
  }

  get #other(): number {
    return this.#call.block[AT.culprit];
  }

  #statement(trace: Error): Statement {
    return { rank: this.#rank, signature: signatureOf(this.#request, this.#plan), site: siteOf(trace) };
  }

  #inWords(error: CollectiveError, own: Statement, other: Statement | undefined): CollectiveError {
    const words = other === undefined ? `${error.message}; this rank at ${own.site}` : describeMismatch(own, other);
    return new CollectiveError('COLL_MISMATCH', words);
  }
}

function isMismatch(error: unknown): error is CollectiveError {
  return error instanceof CollectiveError && error.code === 'COLL_MISMATCH';
}

class HostCall implements Runnable {
  readonly #memory: SharedMemoryExecutor;
  readonly #call: Call;
  readonly #mismatches: Mismatches;
  /** Where it was first run beside the caller: looking costs microseconds, so it is done once. */
  #trace: Error | undefined;

  constructor(memory: SharedMemoryExecutor, call: Call, mismatches: Mismatches) {
    this.#memory = memory;
    this.#call = call;
    this.#mismatches = mismatches;
  }

  async run(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    this.#trace ??= traceHere();
    try {
      await this.#memory.run(this.#call, timeoutMs, signal);
    } catch (error) {
      throw await this.#mismatches.explain(error, this.#trace);
    }
  }

  runSync(timeoutMs: number): void {
    try {
      this.#memory.runSync(this.#call, timeoutMs);
    } catch (error) {
      throw this.#mismatches.explainSync(error, traceHere());
    }
  }

  measure(): void {
    this.#call.block[AT.timed] = 1;
  }

  get times(): RunTimes {
    const [beganMs, metMs, endedMs] = this.#call.block.subarray(AT.times, AT.times + 3);
    return { beganMs, metMs, endedMs };
  }

  get running(): boolean {
    return this.#call.running;
  }
}

/** A number for the algorithm and what else must agree: FNV-1a, 31 bits. */
function identityOf(request: Request, { selection, schedule }: Plan): number {
  const counts = request.collective === 'all-to-all' ? '' : (request.counts ?? []).join('|');
  const text = `${schedule?.algorithm ?? selection?.algorithm.name} ${selection?.shape.segments} ${counts}`;
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h & 0x7fffffff;
}
