/**
 * Predictions from a calibration: the constants of a machine come from a few measured calls (collectives/calibration.ts); these here are calls that
 * were not among them, other algorithms, other collectives, other sizes, and how far the predictions are off.
 */
import { fitMachine, type MeasuredCall, type MeasuredTime } from '../../collectives/calibration.js';
import type { Machine } from '../../collectives/machine.js';
import { parseOverride } from '../../collectives/override.js';
import { selectAlgorithm } from '../../collectives/selection.js';

/** Measured with one number of ranks: what the constants come from, and what they are tried on. */
export interface CalibrationRun {
  readonly ranks: number;
  readonly processors: number;
  readonly calibration: readonly MeasuredTime[];
  readonly heldOut: readonly MeasuredTime[];
}

/** A measured time and what the fitted constants say of it; `error` is relative. */
export interface PredictedTime extends MeasuredTime {
  readonly predictedSeconds: number;
  /** Predicted over measured, minus 1. */
  readonly error: number;
}

const HELD_OUT: readonly (readonly [MeasuredCall['collective'], readonly string[]])[] = [
  ['allreduce', ['ring', 'halving-doubling', 'recursive-doubling', 'binomial-tree']],
  ['broadcast', ['shared-direct', 'binomial', 'chain', 'scatter-all-gather']],
  ['reduce', ['shared-direct', 'binomial']],
  ['all-gather', ['recursive-doubling', 'bruck']],
  ['reduce-scatter', ['ring', 'recursive-halving']],
  ['all-to-all', ['bruck']],
  ['scan', ['recursive-doubling']],
];

/** Sizes between those that are calibrated with. */
const SIZES = [64 << 10, 512 << 10, 2 << 20, 16 << 20];

/** What a calibration is tried on. */
export function heldOutCalls(): MeasuredCall[] {
  return SIZES.flatMap((bytes) =>
    HELD_OUT.flatMap(([collective, algorithms]) => algorithms.map((algorithm) => ({ collective, algorithm, bytes }))),
  );
}

/** Seconds a call takes on a machine by its cost formula, pipelined forms with their best number of segments. */
function predictCall({ collective, algorithm, bytes }: MeasuredCall, ranks: number, machine: Machine): number {
  const override = algorithm === undefined ? undefined : parseOverride(`${collective}:${algorithm}`);
  return selectAlgorithm(collective, { size: ranks, bytes }, machine, override).seconds;
}

/** The held-out calls of a run beside what its calibration says. */
export function predictHeldOut({ ranks, processors, calibration, heldOut }: CalibrationRun): PredictedTime[] {
  const machine = fitMachine('calibrated', ranks, calibration, processors);
  return heldOut.map((call) => {
    const predictedSeconds = predictCall(call, ranks, machine);
    return { ...call, predictedSeconds, error: predictedSeconds / call.seconds - 1 };
  });
}

/** Of the errors' sizes. */
export function medianError(predicted: readonly PredictedTime[]): number {
  const sizes = predicted.map(({ error }) => Math.abs(error)).sort((a, b) => a - b);
  return sizes[Math.floor(sizes.length / 2)];
}
