import type { DistributedOptions } from '../../../src/adapters/flat-gradients.js';

/** Points on a curve: what the adapters' tests fit a small network to. Rank r of p has every p-th point. */
export const POINTS = 32;
export const HIDDEN = 8;
export const RATE = 0.1;
export const STEPS = 60;

export function points(rank: number, size: number): { inputs: Float32Array; targets: Float32Array } {
  const own = Array.from({ length: POINTS / size }, (_, i) => (2 * (i * size + rank)) / POINTS - 1);
  return { inputs: Float32Array.from(own), targets: Float32Array.from(own, (x) => Math.sin(3 * x)) };
}

/** How the ranks are to exchange gradients, one fit after the other: starting a rank with its library takes longer than a fit. */
export const TURNS = JSON.parse(process.env['ADAPTER'] ?? '[{}]') as DistributedOptions[];

/** The points of a rank in `count` pieces: as many as updates make an exchange. */
export function pieces(rank: number, size: number, count = 1): { inputs: Float32Array; targets: Float32Array }[] {
  const { inputs, targets } = points(rank, size);
  const cut = (all: Float32Array, i: number) => all.slice((i * all.length) / count, ((i + 1) * all.length) / count);
  return Array.from({ length: count }, (_, i) => ({ inputs: cut(inputs, i), targets: cut(targets, i) }));
}

/** Weights that no library draws: w1 [1, HIDDEN], b1 [HIDDEN], w2 [HIDDEN, 1]. */
export function weights(): { w1: Float32Array; b1: Float32Array; w2: Float32Array } {
  const wave = (seed: number) => Float32Array.from({ length: HIDDEN }, (_, i) => Math.sin(seed + 1.7 * i));
  return { w1: wave(1), b1: wave(2), w2: wave(3) };
}
