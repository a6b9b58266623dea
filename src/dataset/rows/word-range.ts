/** Which words of a text belong to a split: those that begin in it. */

/** Bytes up to this one part words. */
const BREAK = 0x20;

/**
 * @param bytes the split, one byte before it where there is one, and some behind it.
 * @param from where the split begins in `bytes`, 0 or 1. @param to where it ends.
 * @returns where its words begin and end, or undefined when the last word goes on behind what there is.
 */
export function wordRange(bytes: Uint8Array, from: number, to: number, isWhole: boolean): [number, number] | undefined {
  let begin = from;
  // A word that began before is somebody else's.
  if (from > 0 && bytes[from - 1] > BREAK) while (begin < to && bytes[begin] > BREAK) begin++;
  if (begin >= to) return [to, to];
  let end = to;
  if (bytes[to - 1] > BREAK) while (end < bytes.length && bytes[end] > BREAK) end++;
  return end === bytes.length && !isWhole ? undefined : [begin, end];
}
