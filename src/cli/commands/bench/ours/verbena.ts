/** Verbena itself: two pinned Node processes, one queue pair between them. */

import { getProvider, providerNames } from '../../../../verbs/open-device.js';
import type { CpuPair } from '../../../cpus.js';
import { type BenchCase, LATENCY_BATCH, type Mode, SIGNAL_EVERY, WINDOW } from '../case.js';
import { ChildProgram } from '../child-program.js';
import { Pace } from '../pace.js';
import type { Session, SessionDetails, Subject } from '../subject.js';
import type { EndpointAddress } from './endpoint.js';

const PROGRAM = new URL('./verbena-process.js', import.meta.url);
/** Streaming batches of about this many bytes; at most this many messages. */
const STREAM_BATCH_BYTES = 512 << 20;
const STREAM_BATCH_MESSAGES = 65536;
/** From this size on it matters where the pages of the buffers lie: every round gets new processes, as programs like ucx_perftest do anyhow. */
const FRESH_BYTES = 64 << 10;

/** Completions come in bursts, so a batch of a stream is several windows long, unless the messages are huge. */
function paceOf(bench: BenchCase): Pace {
  if (bench.metric === 'latency') return new Pace(LATENCY_BATCH, 20);
  const least = bench.size > 2 << 20 ? SIGNAL_EVERY : 2 * WINDOW;
  const messages = Math.min(STREAM_BATCH_MESSAGES, Math.floor(STREAM_BATCH_BYTES / bench.size / least) * least);
  return new Pace(Math.max(least, messages), least);
}

class VerbenaSession implements Session {
  readonly #provider: string;
  readonly #bench: BenchCase;
  readonly #open: () => Promise<[ChildProgram, ChildProgram]>;
  readonly #pace: Pace;
  #target: ChildProgram;
  #initiator: ChildProgram;
  #checks = 0;
  #rounds = 0;

  constructor(
    provider: string,
    bench: BenchCase,
    pair: [ChildProgram, ChildProgram],
    open: () => Promise<[ChildProgram, ChildProgram]>,
  ) {
    this.#provider = provider;
    this.#bench = bench;
    [this.#target, this.#initiator] = pair;
    this.#open = open;
    this.#pace = paceOf(bench);
  }

  async #run(durationMs: number): Promise<number[]> {
    return this.#pace.run(durationMs, async (batch, batches) => {
      await Promise.all([this.#target.request('prepareRound'), this.#initiator.request('prepareRound')]);
      const answered = this.#target.request('answer', { batch, batches });
      const values = this.#initiator.request<number[]>('initiate', { batch, batches });
      await Promise.all([answered, values]);
      return values;
    });
  }

  async warmUp(durationMs: number): Promise<void> {
    await this.#run(durationMs / 2);
    await this.#run(durationMs / 2);
  }

  async round(durationMs: number): Promise<readonly number[]> {
    if (this.#rounds++ > 0 && this.#bench.size >= FRESH_BYTES) {
      await this.close();
      [this.#target, this.#initiator] = await this.#open();
      await this.warmUp(durationMs);
    }
    return this.#run(durationMs);
  }

  async verify(): Promise<void> {
    const seed = 41 + 7 * this.#checks++;
    await this.#target.request('prepareCheck', seed);
    await this.#initiator.request('carryOut', seed);
    await this.#target.request('confirm', seed);
  }

  describe(): SessionDetails {
    const { op, memory, mode } = this.#bench;
    return { what: `RC ${op}, ${memory} memory, ${mode}, batches of ${this.#pace.batch}, provider ${this.#provider}` };
  }

  async close(): Promise<void> {
    await Promise.all([this.#target.close(), this.#initiator.close()]);
  }
}

/** Another provider that works here, to be used before the timing; else the same one serves. */
async function otherProvider(provider: string): Promise<string> {
  const own = provider.split(':')[0];
  for (const name of providerNames()) {
    if (name !== own && (await (await getProvider(name)).unavailable()) === undefined) return name;
  }
  return provider;
}

async function openPair(
  provider: string,
  bench: BenchCase,
  cpus: CpuPair,
  signal: AbortSignal,
): Promise<[ChildProgram, ChildProgram]> {
  const other = await otherProvider(provider);
  const providers = other === provider ? [provider] : [provider, other];
  const target = new ChildProgram(PROGRAM, { cpus: [cpus[0]], signal });
  const initiator = new ChildProgram(PROGRAM, { cpus: [cpus[1]], signal });
  try {
    const open = (child: ChildProgram) => child.request<EndpointAddress>('open', { providers, bench });
    const [targetAddress, initiatorAddress] = await Promise.all([open(target), open(initiator)]);
    await Promise.all([target.request('connect', initiatorAddress), initiator.request('connect', targetAddress)]);
    return [target, initiator];
  } catch (error) {
    await Promise.all([target.close(), initiator.close()]);
    throw error;
  }
}

/** Share of a core (0..1) that each of two connected processes uses while they wait for messages that do not come. */
export async function measureIdle(
  provider: string,
  mode: Mode,
  cpus: CpuPair,
  durationMs: number,
  signal: AbortSignal,
): Promise<number> {
  const bench: BenchCase = { op: 'send', metric: 'latency', size: 8, mode, memory: 'arena' };
  const pair = await openPair(provider, bench, cpus, signal);
  try {
    const shares = await Promise.all(pair.map((child) => child.request<number>('idle', durationMs)));
    return Math.max(...shares);
  } finally {
    await Promise.all(pair.map((child) => child.close()));
  }
}

/** @param provider as `openDevice` takes it: 'shm', 'ibverbs:rxe0'. */
export function verbena(provider: string): Subject {
  return {
    who: `verbena/${provider}`,
    unfit: () => undefined,
    missing: async () => undefined,
    async start(bench, cpus, signal) {
      const open = () => openPair(provider, bench, cpus, signal);
      return new VerbenaSession(provider, bench, await open(), open);
    },
  };
}
