/**
 * A group of ranks that others may join while it works.
 *
 * Losing members needs no list: the communicator shrinks. Joining needs a place that members and newcomers both know: a store (`Exchange`).
 *
 *   newcomer   candidate/2 = {pid} ─────────────── waits ──────────── admitted/2 = {key, rank, size} ── new communicator
 *   members    ... steps ... report: candidates > 0 ── admit: first member writes admitted/2 ── new communicator ── agree on the old one
 *
 * Members decide at a step boundary, together. When the new communicator does not come about (the newcomer died meanwhile), all keep the old one.
 */
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { Communicator, type CommunicatorOptions, RankLost } from '../collectives/index.js';

/** `exchange`: where members and newcomers meet. `worker`, `near`: how they reach each other when they live on several hosts, as for `Communicator.create`. */
export interface ElasticOptions extends Pick<CommunicatorOptions, 'exchange' | 'worker' | 'near'> {
  /** Keys begin with this; one for each group. Default 'elastic'. */
  readonly key?: string;
  /** How often members look for newcomers, ms. Default 300. */
  readonly lookEveryMs?: number;
  /** How long a newcomer waits to be let in, and members for its communicator, ms. Default 60,000 and 10,000. */
  readonly joinTimeoutMs?: number;
  readonly admitTimeoutMs?: number;
}

interface Candidate {
  readonly host: string;
  readonly pid: number;
}

interface Admission {
  readonly key: string;
  readonly rank: number;
  readonly size: number;
  readonly handled: number;
}

const parse = <T>(bytes: Uint8Array): T => JSON.parse(new TextDecoder().decode(bytes)) as T;

export class ElasticGroup {
  readonly #options: ElasticOptions;
  readonly #key: string;
  readonly #timer: NodeJS.Timeout;
  /** Places in the list of candidates that were decided on. */
  #handled: number;
  #found = 0;

  private constructor(options: ElasticOptions, handled: number) {
    this.#options = options;
    this.#key = options.key ?? 'elastic';
    this.#handled = handled;
    this.#timer = setInterval(() => void this.#look().catch(() => {}), options.lookEveryMs ?? 300);
    this.#timer.unref();
  }

  /** The first members: all of them call it with their rank. @throws as Communicator.create. */
  static async found(
    rank: number,
    size: number,
    options: ElasticOptions,
  ): Promise<{ group: ElasticGroup; communicator: Communicator }> {
    const { exchange, worker, near, key = 'elastic' } = options;
    const communicator = await Communicator.create({ rank, size, exchange, worker, near, key: `${key}/members-0` });
    return { group: new ElasticGroup(options, 0), communicator };
  }

  /** A newcomer: waits until the members let it in. @throws RankLost when the members were gone, or did not look within joinTimeoutMs. */
  static async join(options: ElasticOptions): Promise<{ group: ElasticGroup; communicator: Communicator }> {
    const { exchange, worker, near, key = 'elastic', joinTimeoutMs = 60_000 } = options;
    const own = JSON.stringify({ host: hostname(), pid: process.pid, nonce: Math.random() });
    let place = 0;
    for (; ; place++) {
      const there = await exchange.compareAndSet(`${key}/candidate/${place}`, undefined, own);
      if (there !== undefined && new TextDecoder().decode(there) === own) break;
    }
    const deadline = performance.now() + joinTimeoutMs;
    for (;;) {
      const said = await exchange.get(`${key}/admitted/${place}`);
      if (said !== undefined) {
        const { key: at, rank, size, handled } = parse<Admission>(said);
        const communicator = await Communicator.create({ rank, size, exchange, worker, near, key: at });
        return { group: new ElasticGroup(options, handled), communicator };
      }
      if (performance.now() > deadline) throw new RankLost(-1, `waiting for ${joinTimeoutMs} ms to be let into the group`);
      await pause(20);
    }
  }

  /** Newcomers who were decided on, from the first on. Members that a loss caught apart agree on the highest. */
  get handled(): number {
    return this.#handled;
  }

  set handled(count: number) {
    this.#handled = count;
    this.#found = Math.max(this.#found, count);
  }

  /** Newcomers who wait, as far as this member has seen. */
  get candidates(): number {
    return this.#found - this.#handled;
  }

  /**
   * All members call it with the same `count`, which is what the first of them saw. Returns the communicator of members and newcomers; undefined
   * when it did not come about: the old one is as good as before. @throws RankLost of the old one.
   */
  async admit(communicator: Communicator, count: number): Promise<Communicator | undefined> {
    const { exchange, worker, near, admitTimeoutMs = 10_000 } = this.#options;
    const from = this.#handled;
    this.#handled += count;
    this.#found = Math.max(this.#found, this.#handled);
    const living = new Uint8Array(count);
    if (communicator.rank === 0) {
      for (let i = 0; i < count; i++) {
        const said = await exchange.get(`${this.#key}/candidate/${from + i}`);
        living[i] = said !== undefined && isRunning(parse<Candidate>(said)) ? 1 : 0;
      }
    }
    await communicator.broadcast(living);
    const places = [...living.keys()].filter((i) => living[i] === 1);
    if (places.length === 0) return undefined;
    const size = communicator.size + places.length;
    const key = `${this.#key}/members-${this.#handled}`;
    if (communicator.rank === 0) {
      for (const [i, place] of places.entries()) {
        const admission: Admission = { key, rank: communicator.size + i, size, handled: this.#handled };
        await exchange.set(`${this.#key}/admitted/${from + place}`, JSON.stringify(admission));
      }
    }
    let larger: Communicator | undefined;
    try {
      const { rank } = communicator;
      larger = await Communicator.create({ rank, size, exchange, worker, near, key, createTimeoutMs: admitTimeoutMs });
    } catch {
      // Whoever could not make it says so below, and then nobody uses it.
    }
    const made = new Int32Array([larger === undefined ? 0 : 1]);
    await communicator.allreduce(made, 'min');
    if (made[0] === 1) return larger;
    larger?.close();
    return undefined;
  }

  /** Stops looking for newcomers. Idempotent. */
  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    while ((await this.#options.exchange.get(`${this.#key}/candidate/${this.#found}`)) !== undefined) this.#found++;
  }
}

/** Of another host nobody here knows: then the wait for it has an end. */
function isRunning({ host, pid }: Candidate): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
