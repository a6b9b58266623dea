/**
 * All-reduce of compressed gradients: the same seam as the plain all-reduce, fewer bytes, and an update that is not quite the gradient.
 *
 * Encoding runs where backward runs, bucket by bucket; the encodings travel while backward goes on. What the encoding leaves out stays with the rank and is
 * added to its next gradient. After the loss of a rank the exchange is made anew and what was left over is dropped: that costs a fraction of one step.
 */
import { nowMs } from '../clock.js';
import type {
  Bucket,
  BucketTimes,
  ExchangeContext,
  ExchangeTotals,
  GradientExchange,
  MakeExchange,
  StepExchanged,
  StepStart,
} from '../gradient-exchange.js';
import { type Compression, checkCompression, nameOf } from './compression.js';
import type { Scheme } from './scheme.js';
import { schemeOf } from './scheme-choice.js';

export interface CompressionOptions {
  /** Keep what was left out for the next step. Default true; without it most encodings do not converge to the same loss. */
  readonly errorFeedback?: boolean;
}

/** Makes exchanges that sum compressed gradients over all ranks. Throws a RangeError for a number out of range. */
export function compressedExchange(compression: Compression, options: CompressionOptions = {}): MakeExchange {
  checkCompression(compression);
  return async (context) => new CompressedExchange(context, compression, options.errorFeedback ?? true);
}

class CompressedExchange implements GradientExchange {
  readonly name: string;
  readonly weighting = 'global';
  readonly #schemes: readonly Scheme[];
  #step = 0;
  #samples = 0;
  #begun = 0;
  #transferMs = 0;
  #waitMs = 0;
  #bytes = 0;

  constructor(context: ExchangeContext, compression: Compression, errorFeedback: boolean) {
    const { communicator, device, gradients, ranges, buckets } = context;
    this.name = nameOf(compression);
    this.#schemes = buckets.map((bucket) => {
      const { from, to } = bucket;
      const inside = ranges
        .filter((range) => range.to > from && range.from < to)
        .map((range) => ({ ...range, from: Math.max(range.from, from) - from, to: Math.min(range.to, to) - from }));
      const part = gradients.subarray(from, to);
      const background = bucket.index < buckets.length - 1;
      const scheme = { communicator, device, bucket, gradients: part, ranges: inside, errorFeedback, background };
      return schemeOf(compression, scheme);
    });
  }

  start({ step, globalSamples }: StepStart): void {
    this.#step = step;
    this.#samples = globalSamples;
    this.#begun = 0;
  }

  begin({ index }: Bucket): void {
    this.#schemes[index].begin(this.#step);
    this.#begun++;
  }

  async finish(): Promise<StepExchanged> {
    if (this.#begun !== this.#schemes.length) throw new Error(`finish() after ${this.#begun} of ${this.#schemes.length} buckets`);
    const beganMs = nowMs();
    let hiddenMs = 0;
    // What runs on this thread comes last in the order of all ranks: after what runs behind.
    for (const scheme of this.#schemes) {
      await scheme.wait();
      scheme.finish(this.#step);
    }
    for (const scheme of this.#schemes) {
      const times = scheme.times();
      this.#bytes += scheme.sentBytes;
      this.#waitMs += times.metMs - times.beganMs;
      hiddenMs += Math.max(0, Math.min(times.endedMs, beganMs) - times.metMs);
    }
    this.#transferMs += nowMs() - beganMs + hiddenMs;
    return { updated: 'gradients', samples: this.#samples };
  }

  times(): readonly BucketTimes[] {
    return this.#schemes.map((scheme) => scheme.times());
  }

  totals(): ExchangeTotals {
    return { transferMs: this.#transferMs, waitMs: this.#waitMs, bytes: this.#bytes };
  }

  async close(): Promise<void> {
    // Calls under way end with the communicator; nothing else is held.
  }
}
