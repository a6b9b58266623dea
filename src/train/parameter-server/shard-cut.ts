/**
 * Which server holds which part of the flat parameters.
 *
 * Even parts by default, so that every server's port carries the same. An optimizer that looks at whole tensors (LAMB sets the length of a tensor's step)
 * needs cuts between tensors; then parts are as even as the tensors allow.
 */
import type { ParameterRange } from '../../nn/index.js';

/** A stretch of the flat parameters: elements `from` up to, not including, `to`. */
export interface ShardCut {
  readonly index: number;
  readonly from: number;
  readonly to: number;
}

/** Cuts `floats` parameters into `shards` parts. `whole`: only between tensors. Throws a RangeError when there are fewer floats (or tensors) than shards. */
export function cutShards(floats: number, shards: number, ranges: readonly ParameterRange[], whole = false): ShardCut[] {
  const most = whole ? ranges.length : floats;
  if (!Number.isSafeInteger(shards) || shards < 1 || shards > most) {
    throw new RangeError(`${floats} parameters can be cut into 1 to ${most} shards, not ${shards}`);
  }
  const ends: number[] = [];
  for (let s = 0; s < shards; s++) {
    const even = Math.round((floats * (s + 1)) / shards);
    if (!whole || s === shards - 1) {
      ends.push(even);
      continue;
    }
    // The border nearest to the even cut that leaves a tensor for every shard before and after it.
    const least = s === 0 ? 0 : ranges.findIndex(({ to }) => to === ends[s - 1]) + 1;
    const candidates = ranges.slice(least, ranges.length - (shards - 1 - s)).map(({ to }) => to);
    ends.push(candidates.reduce((best, to) => (Math.abs(to - even) < Math.abs(best - even) ? to : best)));
  }
  return ends.map((to, index) => ({ index, from: index === 0 ? 0 : ends[index - 1], to }));
}

/** The tensors inside a shard, clipped to it and counted from its start. */
export function rangesOf({ from, to }: ShardCut, ranges: readonly ParameterRange[]): ParameterRange[] {
  return ranges
    .filter((range) => range.to > from && range.from < to)
    .map((range) => ({ ...range, from: Math.max(range.from, from) - from, to: Math.min(range.to, to) - from }));
}
