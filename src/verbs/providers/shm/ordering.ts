/**
 * What the processor's memory model allows to leave out.
 *
 * `Atomics.load` and `Atomics.store` are calls of about 8 ns each; a plain access of a typed array takes less than one. On x86-64 stores
 * become visible in program order and loads are not taken before earlier loads (total store order), so after an `Atomics.store`, which is a full
 * barrier everywhere, plain loads are as good as atomic ones, and a plain store releases what was stored before it. V8 does not move plain accesses across an
 * Atomics call (a test holds it to that). On arm64 none of this is so: there every one of these places uses Atomics.
 *
 * `TSO` is a constant of the module, so the other branch costs nothing.
 */

/** True where plain accesses are ordered as described above. */
export const TSO: boolean = process.arch === 'x64';
