/** Medians and percentiles of measured values. */

/** The value below which a share `p` (0..1) of the values lies, interpolated. NaN for none. */
export function percentile(values: readonly number[], p: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const at = p * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** What ratios of single pairs come to: their median, and their quartiles; four digits. */
export interface Spread {
  readonly ratio: number;
  readonly quartiles: readonly [low: number, high: number];
}

export function spreadOf(ratios: readonly number[]): Spread {
  const [low, ratio, high] = [0.25, 0.5, 0.75].map((p) => Number(percentile(ratios, p).toPrecision(4)));
  return { ratio, quartiles: [low, high] };
}

export interface Summary {
  readonly min: number;
  /** Median over the rounds of each round's median: one disturbed round does not move it. */
  readonly p50: number;
  /** Over all batches. For bandwidth and rate, too, this is the upper end. */
  readonly p99: number;
  readonly max: number;
  /** Batches in all. */
  readonly batches: number;
  readonly rounds: number;
}

/** Sums up rounds of batch values. Throws RangeError when there is none. */
export function summarize(rounds: readonly (readonly number[])[]): Summary {
  const all = rounds.flat();
  if (all.length === 0) throw new RangeError('nothing was measured');
  return {
    min: Math.min(...all),
    p50: median(rounds.filter((round) => round.length > 0).map(median)),
    p99: percentile(all, 0.99),
    max: Math.max(...all),
    batches: all.length,
    rounds: rounds.length,
  };
}
