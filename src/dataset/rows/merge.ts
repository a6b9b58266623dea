/** Merging sorted runs: a heap of their cursors. */

export interface Cursor {
  /** Among equals the lower run is first. */
  readonly run: number;
  /** Goes to the next row. False at the end. */
  advance(): boolean;
}

/** Yields the cursor with the smallest row until all are at their ends; whoever takes it reads the row before asking for the next. */
export function* inOrder<C extends Cursor>(cursors: C[], compare: (a: C, b: C) => number): Generator<C> {
  const isBefore = (a: C, b: C) => {
    const order = compare(a, b);
    return order < 0 || (order === 0 && a.run < b.run);
  };
  const sink = (from: number) => {
    const cursor = cursors[from];
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= cursors.length) break;
      if (child + 1 < cursors.length && isBefore(cursors[child + 1], cursors[child])) child++;
      if (!isBefore(cursors[child], cursor)) break;
      cursors[at] = cursors[child];
      at = child;
    }
    cursors[at] = cursor;
  };
  for (let i = (cursors.length >> 1) - 1; i >= 0; i--) sink(i);
  while (cursors.length > 0) {
    yield cursors[0];
    if (!cursors[0].advance()) {
      const last = cursors.pop() as C;
      if (cursors.length > 0) cursors[0] = last;
    }
    if (cursors.length > 1) sink(0);
  }
}
