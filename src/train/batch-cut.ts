/**
 * How the samples of a step are cut among the ranks: evenly, or in proportion to how fast the ranks have been.
 *
 * The cores of a shared machine are not equally fast, and which one is slow changes from second to second. Every loss is divided by the samples of all ranks, so the
 * gradient of a step is the same however its samples are cut; only the order of its sums differs.
 */

/** Starts of the ranks' shares of `count` samples, and the end: none differs from another by more than one sample. */
export function cutEvenly(count: number, ranks: number): number[] {
  return Array.from({ length: ranks + 1 }, (_, rank) => Math.floor((count * rank) / ranks));
}

/**
 * The same in proportion to `speeds` (above 0), with something for everybody and none more than `limit`. Evenly when the numbers do not allow that: fewer samples than ranks, or
 * more than `limit` for all. Shares are whole grains of a sixteenth of an even share or less, where that is a power of two: a matrix of 129 rows takes longer than its 128
 * would have, and a rank that is a little faster for a moment is better left alone.
 */
export function cutBySpeed(count: number, speeds: readonly number[], limit: number): number[] {
  const ranks = speeds.length;
  let grain = 1;
  for (let next = 2; count % next === 0 && 16 * next * ranks <= count && count <= ranks * (limit - (limit % next)); next *= 2)
    grain = next;
  return cutGrains(count / grain, speeds, Math.floor(limit / grain)).map((start) => start * grain);
}

/** The same with one sample for everybody at least. */
function cutGrains(count: number, speeds: readonly number[], limit: number): number[] {
  const ranks = speeds.length;
  if (count < ranks || count > limit * ranks) return cutEvenly(count, ranks);
  const shares = new Array<number>(ranks).fill(1);
  let open = [...speeds.keys()];
  for (let left = count - ranks; open.length > 0; ) {
    const total = open.reduce((sum, rank) => sum + speeds[rank], 0);
    const full = open.filter((rank) => 1 + (left * speeds[rank]) / total > limit);
    for (const rank of full.length > 0 ? full : open) shares[rank] = full.length > 0 ? limit : 1 + (left * speeds[rank]) / total;
    left -= full.length * (limit - 1);
    open = full.length > 0 ? open.filter((rank) => !full.includes(rank)) : [];
  }
  let sum = 0;
  return [
    0,
    ...shares.map((share) => {
      sum += share;
      return Math.round(sum);
    }),
  ];
}
