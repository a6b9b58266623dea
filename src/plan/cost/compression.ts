/**
 * Does gradient compression pay? It must win in time to the result, not per step: T_comp x I_comp < T_orig x I_orig, where I is how many steps
 * the training takes. Compression shortens the exchange, costs time to encode and decode, and may need more steps.
 */
import { requireInteger, requireNumber } from '../refusal.js';

export interface CompressionQuestion {
  /** Bytes of the gradient. */
  readonly bytes: number;
  /** Workers in the all-reduce. */
  readonly workers: number;
  /** Bytes per second of a port, one way. */
  readonly bytesPerSecond: number;
  /** How many times smaller, >= 1. */
  readonly ratio: number;
  /** Bytes of gradient per second that encoder and decoder together work through. */
  readonly codecBytesPerSecond: number;
  /** Seconds of computing per step. */
  readonly computeSeconds: number;
  /** How many times more steps are needed, >= 1 (1: the result is not altered). Default 1. */
  readonly stepFactor?: number;
  /** Share of the exchange that hides behind computing, 0..1. Default 0. */
  readonly overlap?: number;
}

/** Seconds of a step with and without, and whether it pays. */
export interface CompressionAnswer {
  readonly originalStepSeconds: number;
  readonly compressedStepSeconds: number;
  readonly pays: boolean;
  /** T_orig I_orig / (T_comp I_comp): above 1 it pays. */
  readonly gain: number;
  /** Most extra steps at which it still pays (as a factor). */
  readonly breakEvenStepFactor: number;
  /** Link speed below which it pays (Infinity: at any speed; 0: never). */
  readonly breakEvenBytesPerSecond: number;
}

/** Whether T_comp x I_comp is below T_orig x I_orig. @throws PlanRefusal. */
export function compressionPayoff(q: CompressionQuestion): CompressionAnswer {
  const workers = requireInteger('workers', q.workers, 1);
  const ratio = requireNumber('ratio', q.ratio, 1);
  const factor = requireNumber('stepFactor', q.stepFactor ?? 1, 1);
  const overlap = requireNumber('overlap', q.overlap ?? 0, 0, 1);
  requireNumber('bytesPerSecond', q.bytesPerSecond, 1);
  requireNumber('codecBytesPerSecond', q.codecBytesPerSecond, 1);
  const wire = (2 * q.bytes * (workers - 1)) / workers;
  const codec = q.bytes / q.codecBytesPerSecond;
  const step = (bytesPerSecond: number, compressed: boolean): number => {
    const exchange = wire / (compressed ? ratio : 1) / bytesPerSecond;
    const hidden = Math.min(overlap * exchange, q.computeSeconds);
    return q.computeSeconds + exchange - hidden + (compressed ? codec : 0);
  };
  const original = step(q.bytesPerSecond, false);
  const compressed = step(q.bytesPerSecond, true);
  const gainAt = (speed: number): number => step(speed, false) / (step(speed, true) * factor);
  return {
    originalStepSeconds: original,
    compressedStepSeconds: compressed,
    pays: original > compressed * factor,
    gain: gainAt(q.bytesPerSecond),
    breakEvenStepFactor: original / compressed,
    breakEvenBytesPerSecond: breakEven(gainAt),
  };
}

/** The speed at which the gain falls to 1; the gain only falls with speed. */
function breakEven(gainAt: (speed: number) => number): number {
  let [low, high] = [1e3, 1e15];
  if (gainAt(low) <= 1) return 0;
  if (gainAt(high) > 1) return Number.POSITIVE_INFINITY;
  for (let i = 0; i < 100; i++) {
    const middle = Math.sqrt(low * high);
    if (gainAt(middle) > 1) low = middle;
    else high = middle;
  }
  return low;
}
