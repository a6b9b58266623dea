/**
 * What the processor's memory model allows to leave out.
 *
 * `Atomics.load` and `Atomics.store` are calls of about 10 ns each, and a sequentially consistent store waits for the cache line it goes to; a plain
 * access of a typed array takes less than a nanosecond. Two things make plain accesses enough on x86-64:
 *
 * - Total store order: stores become visible in program order, loads are not taken before earlier loads. So a plain store releases what was stored
 *   before it, and a plain load acquires. V8 does not move plain accesses across an Atomics call (a test holds it to that), and every poll makes one.
 * - Asymmetric barriers: the one order that total store order lacks, a load after a store to another place (publish, then look at `armed`; announce, then
 *   look whether the key still holds), is supplied by the other side, which has time: who arms a queue, or revokes a key, calls membarrier, and every
 *   thread of a registered process passes a full barrier. `Door.asymmetric` says whether this process is registered, H_BARRIER whether a peer is.
 *
 * On arm64 none of this is so: there every one of these places uses Atomics. `TSO` is a constant of the module, so the other branch costs nothing.
 */

/** True where plain accesses are ordered as described above. */
export const TSO: boolean = process.arch === 'x64';

/** A word that another thread stores with `release`: what it stored before is visible after this. */
export function acquire(words: Int32Array, index: number): number {
  return TSO ? words[index] : Atomics.load(words, index);
}

/** Stores a word after everything that was stored before it. Orders no load that follows: for that it takes `Atomics.store`. */
export function release(words: Int32Array, index: number, value: number): void {
  if (TSO) words[index] = value;
  else Atomics.store(words, index, value);
}
