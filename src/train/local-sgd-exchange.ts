/**
 * Local SGD: every rank takes steps of its own, and every `every` steps the parameters become the mean of all ranks' parameters.
 *
 * What it gives: one exchange in `every` steps, and nobody waits in between. What it loses: this is another algorithm than SGD on the global batch.
 * Between two averages ranks see their own samples only, so gradients are noisier and parameters drift apart; momentum and other optimizer state stay local.
 * With every = 1 and plain SGD it equals averaging gradients (equal shares); the larger `every`, the smaller the learning rate it bears.
 */
import type { PreparedCall } from '../collectives/index.js';
import type {
  ExchangeContext,
  ExchangeTotals,
  GradientExchange,
  MakeExchange,
  StepExchanged,
  StepStart,
} from './gradient-exchange.js';

export interface LocalSgdOptions {
  /** Steps between two averages; at least 1. */
  readonly every: number;
}

class LocalSgdExchange implements GradientExchange {
  readonly name: string;
  readonly weighting = 'own';
  readonly #every: number;
  readonly #average: PreparedCall;
  readonly #bytes: number;
  #since = 0;
  #own = 0;
  #averages = 0;
  #waitMs = 0;
  #transferMs = 0;

  constructor({ communicator, parameters }: ExchangeContext, every: number) {
    this.name = `local SGD, average every ${every}`;
    this.#every = every;
    this.#average = communicator.prepareAllreduce(parameters, 'avg');
    this.#average.measure();
    this.#bytes = communicator.size === 1 ? 0 : parameters.byteLength;
  }

  start({ ownSamples }: StepStart): void {
    this.#own = ownSamples;
    // The optimizer has run since the last finish(): what is averaged are parameters after a whole step.
    if (this.#since >= this.#every) this.#bringTogether();
    this.#since++;
  }

  begin(): void {}

  async finish(): Promise<StepExchanged> {
    return { updated: 'gradients', samples: this.#own };
  }

  async settle(): Promise<void> {
    if (this.#since > 0) this.#bringTogether();
  }

  #bringTogether(): void {
    this.#average.runSync();
    const { beganMs, metMs, endedMs } = this.#average.times;
    this.#waitMs += metMs - beganMs;
    this.#transferMs += endedMs - metMs;
    this.#averages++;
    this.#since = 0;
  }

  totals(): ExchangeTotals {
    return { transferMs: this.#transferMs, waitMs: this.#waitMs, bytes: this.#averages * this.#bytes };
  }

  async close(): Promise<void> {}
}

/** Steps by every rank alone, parameters averaged now and then. @throws RangeError for a bad option. */
export function localSgdExchange({ every }: LocalSgdOptions): MakeExchange {
  if (!Number.isSafeInteger(every) || every < 1) throw new RangeError(`every must be an integer of at least 1, not ${every}`);
  return async (context) => new LocalSgdExchange(context, every);
}
