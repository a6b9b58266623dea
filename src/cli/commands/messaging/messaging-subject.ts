/** Verbena's messaging as something that is measured: two pinned processes, one endpoint between them. */

import type { CpuPair } from '../../cpus.js';
import { LATENCY_BATCH, WINDOW } from '../bench/case.js';
import { ChildProgram } from '../bench/child-program.js';
import { Pace } from '../bench/pace.js';
import type { Session, SessionDetails, Subject } from '../bench/subject.js';
import type { MessagingCase } from './messaging-case.js';
import type { EndAddress } from './messaging-end.js';

const PROGRAM = new URL('./messaging-process.js', import.meta.url);
const STREAM_BATCH_BYTES = 256 << 20;
const STREAM_BATCH_MESSAGES = 65_536;

function paceOf(bench: MessagingCase): Pace {
  if (bench.metric === 'latency') return new Pace(LATENCY_BATCH, 20);
  const least = 2 * WINDOW;
  const messages = Math.floor(STREAM_BATCH_BYTES / bench.size / least) * least;
  return new Pace(Math.max(least, Math.min(STREAM_BATCH_MESSAGES, messages)), least);
}

class MessagingSession implements Session {
  readonly #bench: MessagingCase;
  readonly #target: ChildProgram;
  readonly #initiator: ChildProgram;
  readonly #pace: Pace;
  #checks = 0;

  constructor(bench: MessagingCase, target: ChildProgram, initiator: ChildProgram) {
    this.#bench = bench;
    this.#target = target;
    this.#initiator = initiator;
    this.#pace = paceOf(bench);
  }

  async #both<T>(name: string, argument: object): Promise<T> {
    const answered = this.#target.request(name, { ...argument, initiator: false });
    const values = this.#initiator.request<T>(name, { ...argument, initiator: true });
    await Promise.all([answered, values]);
    return values;
  }

  async warmUp(durationMs: number): Promise<void> {
    await this.round(durationMs / 2);
    await this.round(durationMs / 2);
  }

  round(durationMs: number): Promise<readonly number[]> {
    return this.#pace.run(durationMs, (batch, batches) => this.#both<number[]>('round', { batch, batches }));
  }

  async verify(): Promise<void> {
    await this.#both('check', { seed: 41 + 7 * this.#checks++ });
  }

  describe(): SessionDetails {
    const { op, memory, api, engine } = this.#bench;
    return { what: `${op}, ${memory} memory, ${api}, batches of ${this.#pace.batch}, ${engine}` };
  }

  async close(): Promise<void> {
    await Promise.all([this.#target.close(), this.#initiator.close()]);
  }
}

/** Opens the two processes and connects them. */
export async function openMessagingPair(
  bench: MessagingCase,
  cpus: CpuPair,
  signal: AbortSignal,
): Promise<[target: ChildProgram, initiator: ChildProgram]> {
  const target = new ChildProgram(PROGRAM, { cpus: [cpus[0]], signal });
  const initiator = new ChildProgram(PROGRAM, { cpus: [cpus[1]], signal });
  try {
    const open = (child: ChildProgram) => child.request<EndAddress>('open', bench);
    const [targetAddress, initiatorAddress] = await Promise.all([open(target), open(initiator)]);
    await Promise.all([
      target.request('connect', { peer: initiatorAddress, initiator: false }),
      initiator.request('connect', { peer: targetAddress, initiator: true }),
    ]);
    return [target, initiator];
  } catch (error) {
    await Promise.all([target.close(), initiator.close()]);
    throw error;
  }
}

export function messagingSubject(bench: MessagingCase): Subject {
  return {
    who: `verbena/${bench.engine}`,
    unfit: () => undefined,
    missing: async () => undefined,
    async start(_, cpus, signal) {
      return new MessagingSession(bench, ...(await openMessagingPair(bench, cpus, signal)));
    },
  };
}
