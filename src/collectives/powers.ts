/**
 * Powers of two, and how recursive algorithms deal with sizes that are none.
 *
 * Recursive doubling and halving need q = 2^k ranks. Of p = q + r ranks the first 2r pair up: the even one hands its vector to its odd neighbour
 * and sits out; odd ones and the rest are the q **virtual** ranks.
 *
 *   p = 6, q = 4, r = 2      rank     0   1   2   3   4   5
 *                            virtual  -   0   -   1   2   3
 */

/** Largest k with 2^k <= n, n >= 1. */
export function floorLog2(n: number): number {
  return 31 - Math.clz32(n);
}

/** Smallest k with 2^k >= n, n >= 1. */
export function ceilLog2(n: number): number {
  return n <= 1 ? 0 : 32 - Math.clz32(n - 1);
}

export interface Fold {
  /** Virtual ranks: the largest power of two <= p. */
  readonly active: number;
  /** Ranks that sit out: p - active. */
  readonly extra: number;
  /** Virtual rank, or -1 for one that sits out. */
  virtual(rank: number): number;
  /** The rank behind a virtual rank. */
  real(virtual: number): number;
}

export function fold(size: number): Fold {
  const active = 2 ** floorLog2(size);
  const extra = size - active;
  return {
    active,
    extra,
    virtual: (rank) => (rank >= 2 * extra ? rank - extra : rank % 2 === 0 ? -1 : (rank - 1) / 2),
    real: (virtual) => (virtual < extra ? 2 * virtual + 1 : virtual + extra),
  };
}
