/**
 * The copy that a checkpoint is written from, made piece by piece by two threads that never wait for each other.
 *
 *   checkpoint thread     takes open pieces while the next step computes:   open ──> taken ──> copied
 *   step                  before it writes parameters again, copies what is not copied into memory of its own:   open, taken ──> saved
 *
 * A piece that the step has saved counts as that, whatever the thread has made of it: by then it may have copied numbers of two steps.
 */

/** What a piece is; one word for each. */
export const PIECE = { open: 0, taken: 1, copied: 2, saved: 3 } as const;

/** Bytes of a piece: long enough to be worth a call, short enough that few are left in the middle. */
const PIECE_BYTES = 1 << 18;

/** A stretch of this process's memory, and its place in the copy. */
export interface Piece {
  readonly address: number;
  readonly bytes: number;
  readonly at: number;
}

/** Cuts memory that lies one behind the other in the copy. */
export function cutPieces(sources: readonly { readonly address: number; readonly bytes: number }[]): Piece[] {
  let at = 0;
  return sources.flatMap((source) => {
    const pieces: Piece[] = [];
    for (let from = 0; from < source.bytes; from += PIECE_BYTES) {
      const bytes = Math.min(PIECE_BYTES, source.bytes - from);
      pieces.push({ address: source.address + from, bytes, at });
      at += bytes;
    }
    return pieces;
  });
}
