/**
 * Which algorithm runs: the cheapest by cost, and why every other one did not.
 *
 * Pure: shape, machine and override in, the verdict out. Pipelined algorithms are tried with 1, 2, 4, ... segments and enter with their best. Ties go to
 * the earlier in the registry. The result is data that `explain` prints and a snapshot test pins down.
 */

import type { Collective } from '../schedule/schedule.js';
import type { Algorithm, Cost, Shape } from './algorithm.js';
import { busyShare } from './busy-share.js';
import { type Machine, predictSeconds } from './machine.js';
import type { Override } from './override.js';
import { ALGORITHMS } from './registry.js';

/** What became of a candidate. */
export type Verdict =
  | { readonly kind: 'chosen' }
  /** Costs `ratio` times the chosen one. */
  | { readonly kind: 'slower'; readonly ratio: number }
  /** Cannot do this shape. */
  | { readonly kind: 'unsupported'; readonly reason: string }
  /** Needs what this machine does not offer. */
  | { readonly kind: 'not-offered'; readonly needs: NonNullable<Algorithm['needs']> }
  /** The user's override leaves it out. */
  | { readonly kind: 'overridden' };

/** An algorithm that was weighed, and why it won or lost. */
export interface Candidate {
  readonly name: string;
  readonly verdict: Verdict;
  /** Predicted, where it can run. */
  readonly seconds?: number;
  readonly cost?: Cost;
  /** Best number of segments, for pipelined forms. */
  readonly segments?: number;
}

export interface Selection {
  readonly collective: Collective;
  readonly algorithm: Algorithm;
  /** The shape asked for, with the chosen segments filled in. */
  readonly shape: Shape;
  readonly seconds: number;
  /** All of them, in the order of the registry. */
  readonly candidates: readonly Candidate[];
}

const MOST_SEGMENTS = 1024;

/** @throws RangeError when no algorithm is left, saying what became of each. */
export function selectAlgorithm(collective: Collective, shape: Shape, machine: Machine, override?: Override): Selection {
  const allowed = override?.get(collective);
  const tried = ALGORITHMS[collective].map((algorithm) => ({ algorithm, ...judge(algorithm, shape, machine, allowed) }));
  let best: (typeof tried)[number] | undefined;
  for (const candidate of tried) {
    if (candidate.seconds !== undefined && (best?.seconds === undefined || candidate.seconds < best.seconds)) best = candidate;
  }
  if (best?.seconds === undefined) {
    const why = tried.map(({ algorithm, verdict }) => `${algorithm.name}: ${explainVerdict(verdict)}`).join('; ');
    throw new RangeError(`no algorithm for ${collective} of ${shape.bytes} bytes on ${shape.size} ranks (${why})`);
  }
  const { algorithm: chosen, seconds } = best;
  const candidates = tried.map(({ algorithm, ...rest }): Candidate => {
    if (algorithm === chosen) return { name: algorithm.name, ...rest, verdict: { kind: 'chosen' } };
    if (rest.seconds === undefined) return { name: algorithm.name, ...rest };
    return { name: algorithm.name, ...rest, verdict: { kind: 'slower', ratio: seconds === 0 ? 1 : rest.seconds / seconds } };
  });
  return { collective, algorithm: chosen, shape: { ...shape, segments: best.segments ?? shape.segments }, seconds, candidates };
}

/** One clause for people. */
export function explainVerdict(verdict: Verdict): string {
  switch (verdict.kind) {
    case 'chosen':
      return 'chosen';
    case 'slower':
      return `${verdict.ratio.toFixed(2)} times the chosen one`;
    case 'unsupported':
      return verdict.reason;
    case 'not-offered':
      return `needs ${verdict.needs}, which this machine does not offer`;
    case 'overridden':
      return 'left out by the override';
  }
}

function judge(
  algorithm: Algorithm,
  shape: Shape,
  machine: Machine,
  allowed: ReadonlySet<string> | undefined,
): Omit<Candidate, 'name'> {
  if (allowed !== undefined && !allowed.has(algorithm.name)) return { verdict: { kind: 'overridden' } };
  const { needs } = algorithm;
  if (needs !== undefined && !(machine.offers ?? []).includes(needs)) return { verdict: { kind: 'not-offered', needs } };
  const supported = algorithm.supports(shape);
  if (supported !== true) return { verdict: { kind: 'unsupported', reason: supported } };
  const { segments, cost, seconds } = cheapest(algorithm, shape, machine);
  return { verdict: { kind: 'slower', ratio: 1 }, seconds, cost, segments };
}

/**
 * Seconds of an algorithm. Where ranks share processors, those that only wait leave them to the others: bytes then move faster than when all ranks
 * worked, as they did when the constants were measured. Waiting for one another does not become shorter.
 */
function secondsOf(algorithm: Algorithm, cost: Cost, shape: Shape, machine: Machine): number {
  const whole = predictSeconds(cost, shape, machine);
  const { sharing = 1 } = machine;
  if (sharing === 1) return whole;
  const terms = cost.terms.map((term) => ({ ...term, beta: 0, insideBeta: 0 }));
  const waiting = predictSeconds({ ...cost, terms, gamma: 0, copied: 0 }, shape, machine);
  return waiting + (whole - waiting) / Math.min(sharing, 1 / busyShare(algorithm, cost, shape));
}

function cheapest(algorithm: Algorithm, shape: Shape, machine: Machine): { segments?: number; cost: Cost; seconds: number } {
  const price = (segments?: number) => {
    const cost = algorithm.cost(segments === undefined ? shape : { ...shape, segments });
    return { segments, cost, seconds: secondsOf(algorithm, cost, { ...shape, segments }, machine) };
  };
  if (algorithm.tunable !== 'segments' || shape.segments !== undefined) return price(shape.segments);
  let best = price(1);
  for (let segments = 2; segments <= MOST_SEGMENTS && segments <= shape.bytes; segments *= 2) {
    const next = price(segments);
    if (next.seconds < best.seconds) best = next;
  }
  return best;
}
