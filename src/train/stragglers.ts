/**
 * Who holds the others up, by how much, and why.
 *
 * In a synchronous step everybody waits for the last one. The slow rank is the one that waits least; whether it computes slowly or its transfers are slow shows in
 * its own times, compared with the median of the others.
 */

/** What one rank did in a stretch of steps, ms in all. */
export interface RankTimes {
  /** Reading data, forward, backward, optimizer. */
  readonly computeMs: number;
  /** Waiting for slower ranks, where nothing hid it. */
  readonly waitMs: number;
  /** Moving and adding bytes, where nothing hid it. */
  readonly transferMs: number;
}

/** Who holds the others up, and by what. */
export interface StragglerReport {
  /** The rank the others wait for; undefined when nobody stands out. */
  readonly rank: number | undefined;
  readonly cause: 'compute' | 'network' | undefined;
  /** How many times as long as the median of the others it takes for what is slow. */
  readonly factor: number;
  /** Share of the others' time that goes into waiting, 0 .. 1. */
  readonly othersWait: number;
  /** In words. */
  readonly text: string;
}

/** A rank stands out from this factor on. */
const FACTOR = 1.25;
/** And when the others wait at least this share of their time. */
const SHARE = 0.05;

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Compares the ranks of one stretch of steps. `names`: how ranks are called; default their numbers. */
export function findStraggler(
  ranks: readonly RankTimes[],
  names: readonly string[] = ranks.map((_, i) => `rank ${i}`),
): StragglerReport {
  const none = { rank: undefined, cause: undefined, factor: 1, othersWait: 0 };
  if (ranks.length < 2) return { ...none, text: 'one rank has nobody to wait for' };
  const candidates = ranks.flatMap((own, rank) => {
    const others = ranks.filter((_, i) => i !== rank);
    const waits = others.map(({ computeMs, waitMs, transferMs }) => waitMs / Math.max(1e-9, computeMs + waitMs + transferMs));
    const othersWait = median(waits);
    const times = (of: (times: RankTimes) => number) => of(own) / Math.max(1e-9, median(others.map(of)));
    const compute = times(({ computeMs }) => computeMs);
    const network = times(({ transferMs }) => transferMs);
    // Transfers are short: a large factor of next to nothing is no cause.
    const lost = (of: (times: RankTimes) => number) => of(own) - median(others.map(of));
    const networkCounts =
      lost(({ transferMs }) => transferMs) >
      Math.max(
        0,
        lost(({ computeMs }) => computeMs),
      );
    const cause = networkCounts ? ('network' as const) : ('compute' as const);
    const factor = networkCounts ? network : compute;
    return [{ rank, cause, factor, othersWait }];
  });
  const worst = candidates.reduce((a, b) => (b.othersWait * b.factor > a.othersWait * a.factor ? b : a));
  if (worst.factor < FACTOR || worst.othersWait < SHARE) {
    return { ...none, othersWait: worst.othersWait, text: 'no rank holds the others up' };
  }
  const why = worst.cause === 'compute' ? 'computes' : 'moves its bytes';
  const text =
    `${names[worst.rank]} ${why} ${worst.factor.toFixed(2)} times as long as the others, ` +
    `which wait ${(100 * worst.othersWait).toFixed(0)} % of their time`;
  return { ...worst, text };
}
