/** The part of `verbena tune` that collectives are chosen by: measured with two ranks and with twice the processors, and kept. */

import { availableParallelism, hostname } from 'node:os';
import { calibrationCalls, fitMachine } from '../../../collectives/calibration.js';
import type { Machine } from '../../../collectives/index.js';
import { tunedMachinePath, writeTunedMachine } from '../../../collectives/tuned-machine.js';
import { measureCalls } from './measured-calls.js';

const DURATION_MS = 100;

export interface TunedCollectives {
  readonly ranks: number;
  readonly machine: Machine;
}

/** How many ranks are measured: as many as there are processors, and more than that. */
function tunedRanks(): number[] {
  const cpus = Math.max(2, availableParallelism());
  return [...new Set([2, Math.min(16, cpus), Math.min(16, 2 * cpus)])].sort((a, b) => a - b);
}

/** Measures, and keeps it unless told not to. Returns the constants and where they are. */
export async function tuneCollectives(
  signal: AbortSignal,
  keep: boolean,
  progress: (text: string) => void,
): Promise<{ readonly tuned: readonly TunedCollectives[]; readonly file: string }> {
  const tuned: TunedCollectives[] = [];
  for (const ranks of tunedRanks()) {
    progress(`collectives among ${ranks}`);
    const measured = await measureCalls(calibrationCalls(ranks), { ranks, memory: 'arena', durationMs: DURATION_MS, signal });
    const machine = fitMachine(`${hostname()}, ${ranks} ranks`, ranks, measured, availableParallelism());
    if (keep) writeTunedMachine(ranks, machine);
    tuned.push({ ranks, machine });
  }
  return { tuned, file: tunedMachinePath() };
}
