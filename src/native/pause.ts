/**
 * What a loop does between two looks at memory that another core writes. Two hardware threads of one core share its execution units: one that looks as fast as it can takes
 * almost half of them from the other, which is often the very one that it waits for. JavaScript has no PAUSE instruction; two square roots, each of the other's result, take
 * about as long as a look and occupy next to nothing.
 */

const state = new Float64Array([1.5]);

/** Waits about 15 ns. */
export function pause(): void {
  state[0] = Math.sqrt(Math.sqrt(state[0] + 1) + 1);
}
