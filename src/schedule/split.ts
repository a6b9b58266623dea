/**
 * How n elements are cut into k chunks: the one rule for uneven splits, and the v-forms' explicit counts.
 *
 *   n = 11, k = 4        | 0 1 2 | 3 4 5 | 6 7 8 | 9 10 |       the first n mod k chunks have one element more
 *   n = 2,  k = 4        | 0 | 1 |  |  |                         empty chunks are legal
 *
 * A `Split` answers offset(c) for c = 0 .. k; chunk c is [offset(c), offset(c + 1)). Both kinds answer in O(1) and without a table
 * where there is a closed form, so a split of 16,384 chunks is free.
 */

import type { ChunkRange } from './schedule.js';

export interface Split {
  readonly chunks: number;
  /** Elements altogether. */
  readonly elements: number;
  /** Element index at which chunk c begins, c = 0 .. chunks (`offset(chunks) === elements`). */
  offset(chunk: number): number;
}

/** A run of elements inside a buffer. */
export interface Piece {
  readonly offset: number;
  readonly length: number;
}

/** n elements in k chunks, as even as possible. @throws RangeError unless n >= 0 and k >= 1 are integers. */
export function evenSplit(elements: number, chunks: number): Split {
  if (!Number.isSafeInteger(elements) || elements < 0) throw new RangeError(`elements must be an integer >= 0, got ${elements}`);
  if (!Number.isSafeInteger(chunks) || chunks < 1) throw new RangeError(`chunks must be an integer >= 1, got ${chunks}`);
  const base = Math.floor(elements / chunks);
  const longer = elements % chunks;
  return { chunks, elements, offset: (c) => c * base + Math.min(c, longer) };
}

/** Chunks of the given lengths (v-forms). @throws RangeError on a negative or fractional count. */
export function countsSplit(counts: readonly number[]): Split {
  const offsets = new Float64Array(counts.length + 1);
  for (let c = 0; c < counts.length; c++) {
    if (!Number.isSafeInteger(counts[c]) || counts[c] < 0)
      throw new RangeError(`counts[${c}] must be an integer >= 0, got ${counts[c]}`);
    offsets[c + 1] = offsets[c] + counts[c];
  }
  return { chunks: counts.length, elements: offsets[counts.length], offset: (c) => offsets[c] };
}

/** Elements in a cyclic range of chunks. */
export function rangeLength(split: Split, first: number, count: number): number {
  const end = first + count;
  if (end <= split.chunks) return split.offset(end) - split.offset(first);
  return split.elements - split.offset(first) + split.offset(end - split.chunks);
}

/**
 * Where a range of chunks lies inside a buffer that holds `window`: one piece, or two when the range wraps past the last chunk (cut there
 * even where the window is contiguous, so that both ends of a message cut alike).
 *
 * @throws RangeError when the range is not inside the window.
 */
export function pieces(split: Split, window: ChunkRange, first: number, count: number): Piece[] {
  const head = Math.min(count, split.chunks - first);
  const result = [piece(split, window, first, head)];
  if (count > head) result.push(piece(split, window, 0, count - head));
  return result;
}

function piece(split: Split, window: ChunkRange, first: number, count: number): Piece {
  const k = split.chunks;
  const relative = (first - window.first + k) % k;
  if (first < 0 || first >= k || relative + count > window.count) {
    throw new RangeError(
      `chunks ${first}..${first + count - 1} are outside the window of ${window.count} chunks from ${window.first}`,
    );
  }
  return { offset: rangeLength(split, window.first, relative), length: split.offset(first + count) - split.offset(first) };
}

/** Elements a buffer with this window needs. */
export function windowLength(split: Split, window: ChunkRange): number {
  return window.count === 0 ? 0 : rangeLength(split, window.first, window.count);
}
