/**
 * Synchronous data parallelism: buckets are summed over the ranks in place, where backward wrote them.
 *
 * All buckets but the last run on the communicator's own thread while backward goes on. The last one has nothing to hide behind, so it runs on the
 * calling thread and saves the way to the other and back.
 */
import type { PreparedCall } from '../collectives/index.js';
import type {
  Bucket,
  BucketTimes,
  ExchangeContext,
  ExchangeTotals,
  GradientExchange,
  MakeExchange,
  StepExchanged,
  StepStart,
} from './gradient-exchange.js';

class AllReduceExchange implements GradientExchange {
  readonly name = 'allreduce';
  readonly weighting = 'global';
  readonly #calls: readonly { readonly bucket: Bucket; readonly call: PreparedCall }[];
  readonly #bytesPerStep: number;
  #pending: Promise<unknown>[] = [];
  #samples = 0;
  #transferMs = 0;
  #waitMs = 0;
  #steps = 0;

  constructor({ communicator, gradients, buckets }: ExchangeContext) {
    this.#calls = buckets.map((bucket) => {
      const call = communicator.prepareAllreduce(gradients.subarray(bucket.from, bucket.to), 'sum');
      call.measure();
      return { bucket, call };
    });
    this.#bytesPerStep = communicator.size === 1 ? 0 : gradients.byteLength;
  }

  start({ globalSamples }: StepStart): void {
    this.#samples = globalSamples;
    this.#pending = [];
  }

  begin({ index }: Bucket): void {
    if (index === this.#calls.length - 1) return;
    // A failure is reported by finish(), which looks at all of them.
    const running = this.#calls[index].call.run().catch((error: unknown) => error ?? new Error('the exchange failed'));
    this.#pending.push(running);
  }

  async finish(): Promise<StepExchanged> {
    let failure: unknown;
    try {
      this.#calls[this.#calls.length - 1]?.call.runSync();
    } catch (error) {
      failure = error;
    }
    for (const outcome of await Promise.all(this.#pending)) failure = outcome ?? failure;
    if (failure !== undefined) throw failure;
    for (const { call } of this.#calls) {
      const { beganMs, metMs, endedMs } = call.times;
      this.#waitMs += metMs - beganMs;
      this.#transferMs += endedMs - metMs;
    }
    this.#steps++;
    return { updated: 'gradients', samples: this.#samples };
  }

  times(): readonly BucketTimes[] {
    return this.#calls.map(({ bucket, call }) => ({ bucket, ...call.times }));
  }

  totals(): ExchangeTotals {
    return { transferMs: this.#transferMs, waitMs: this.#waitMs, bytes: this.#steps * this.#bytesPerStep };
  }

  async close(): Promise<void> {
    await Promise.all(this.#pending);
  }
}

/** Gradients summed over all ranks in every step: what `distribute` does unless told otherwise. */
export function allReduceExchange(): MakeExchange {
  return async (context) => new AllReduceExchange(context);
}
