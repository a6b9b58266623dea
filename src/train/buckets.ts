/**
 * Buckets: how the flat gradient is cut for its exchange.
 *
 * Backward finishes ranges from the end of the gradient to its start. One bucket for all is cheapest to move but moves only when everything is
 * computed; many small ones start early and pay their fixed cost each:
 *
 *   backward   |── layer 5 ──|── layer 3 ──────|──── layer 0 ────────|
 *   buckets                  [== bucket 0 ==]   (bucket 0 = layers 5, 3)   [= bucket 1 =]
 *                                                                     └─ exposed: what is left after backward
 *
 * On a machine whose cores all compute, the exchange takes from backward what it hides behind it, and one bucket is best.
 *
 * The plan tries sizes, walks through one step with each, and takes the one that leaves the least exposed. It is a pure function of times and
 * costs, so ranks that agree on these agree on the plan.
 */
import type { Bucket } from './gradient-exchange.js';

/** A stretch that becomes final at once, in the order in which that happens. */
export interface ReadyRange {
  readonly from: number;
  readonly to: number;
  /** Since the start of backward, ms. */
  readonly readyMs: number;
}

/** A size of buckets that was weighed. */
export interface BucketCandidate {
  /** A bucket is closed when it has at least this many bytes. */
  readonly bucketBytes: number;
  readonly buckets: number;
  /** Predicted time of the exchange that backward does not hide, ms. */
  readonly exposedMs: number;
}

/** The buckets of a gradient, and the sizes that were weighed. */
export interface BucketPlan {
  readonly buckets: readonly Bucket[];
  readonly bucketBytes: number;
  /** All sizes that were tried, smallest first. */
  readonly candidates: readonly BucketCandidate[];
}

/** Sizes that are tried, bytes. */
const SIZES = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, Number.POSITIVE_INFINITY];
/** What handing a bucket to another thread costs both threads, ms. */
const HAND_OVER_MS = 0.02;

/** Cuts ranges that come from the end to the start into buckets of at least `bucketBytes`. @throws RangeError when they are not in that order. */
export function cutBuckets(ranges: readonly Pick<ReadyRange, 'from' | 'to'>[], bucketBytes: number): Bucket[] {
  if (!(bucketBytes > 0)) throw new RangeError(`bucketBytes must be above 0, not ${bucketBytes}`);
  const buckets: Bucket[] = [];
  let open: { from: number; to: number } | undefined;
  let expected: number | undefined;
  for (const { from, to } of ranges) {
    if (expected !== undefined && to !== expected)
      throw new RangeError(`ranges come from the end to the start without gaps: ${to} follows ${expected}`);
    expected = from;
    open = { from, to: open?.to ?? to };
    if (4 * (open.to - open.from) >= bucketBytes) {
      buckets.push({ index: buckets.length, ...open });
      open = undefined;
    }
  }
  if (open !== undefined) buckets.push({ index: buckets.length, ...open });
  return buckets;
}

/**
 * What the exchange adds to the step, ms. All buckets but the last travel in the background, one after the other. Without a core to spare there is no background: what
 * the exchange computes, backward waits for.
 */
function exposedMs(
  ranges: readonly ReadyRange[],
  buckets: readonly Bucket[],
  costMs: (bytes: number) => number,
  spareCore: boolean,
): number {
  if (!spareCore) return buckets.reduce((sum, { from, to }, i) => sum + costMs(4 * (to - from)) + (i > 0 ? HAND_OVER_MS : 0), 0);
  const end = ranges[ranges.length - 1].readyMs;
  const readyAt = new Map(ranges.map(({ from, readyMs }) => [from, readyMs]));
  let free = 0;
  let late = 0;
  for (const { from, to, index } of buckets) {
    const background = index < buckets.length - 1;
    if (background) late += HAND_OVER_MS;
    free = Math.max(free, (readyAt.get(from) ?? end) + late) + costMs(4 * (to - from));
  }
  return free - end;
}

export interface BucketOptions {
  /** Use this size; above 0. Default: the best one. */
  readonly bucketBytes?: number | undefined;
  /** Whether a core is free for the exchange while backward computes. Default: true. */
  readonly spareCore?: boolean;
}

/** The plan for one step. `costMs`: time of exchanging a bucket of so many bytes. */
export function planBuckets(
  ranges: readonly ReadyRange[],
  costMs: (bytes: number) => number,
  options: BucketOptions = {},
): BucketPlan {
  const { bucketBytes, spareCore = true } = options;
  if (ranges.length === 0) return { buckets: [], bucketBytes: bucketBytes ?? Number.POSITIVE_INFINITY, candidates: [] };
  const candidates: BucketCandidate[] = (bucketBytes === undefined ? SIZES : [bucketBytes]).map((size) => {
    const buckets = cutBuckets(ranges, size);
    return { bucketBytes: size, buckets: buckets.length, exposedMs: exposedMs(ranges, buckets, costMs, spareCore) };
  });
  // Of equally good ones the one with the fewest buckets.
  const best = candidates.reduce((a, b) => (b.exposedMs <= a.exposedMs + 1e-6 ? b : a));
  return { buckets: cutBuckets(ranges, best.bucketBytes), bucketBytes: best.bucketBytes, candidates };
}
