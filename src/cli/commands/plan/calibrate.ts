/** `verbena plan calibrate`: the constants of this machine, and how well collectives that were not measured for them are predicted. */

import { availableParallelism } from 'node:os';
import { calibrationCalls, fitMachine } from '../../../collectives/calibration.js';
import { writeTunedMachine } from '../../../collectives/tuned-machine.js';
import {
  type CalibrationRun,
  heldOutCalls,
  medianError,
  type PredictedTime,
  predictHeldOut,
} from '../../../plan/fit/calibration.js';
import { defineCommand } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { measureCalls } from '../collectives/measured-calls.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

const LIMIT_MS = 95_000;

export const calibrateCommand = defineCommand({
  name: 'calibrate',
  summary: 'measures the constants of this machine and predicts other collectives with them',
  description:
    'Ranks of this host, shared memory, the vector written just before each call. A few calls give the constants (as verbena tune does); the table shows\n' +
    'calls that were not among them, in other algorithms, collectives and sizes. --keep lets communicators on this host choose by these constants.',
  options: {
    ranks: { type: 'integer', min: 2, max: 16, summary: 'processes; default: 2, and twice the processors' },
    'call-ms': { type: 'integer', default: 60, min: 5, max: 2000, value: 'MS', summary: 'time for each call' },
    keep: { type: 'flag', summary: 'keep the constants, as verbena tune does' },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan calibrate', note: 'Half a minute, on a machine that does nothing else.' }],
  async run({ options, signal, style, progress }) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
    const all = options.ranks === undefined ? [...new Set([2, Math.min(16, 2 * availableParallelism())])] : [options.ranks];
    const processors = availableParallelism();
    const runs: CalibrationRun[] = [];
    const predicted: (PredictedTime & { readonly ranks: number })[] = [];
    for (const ranks of all) {
      const shared = { ranks, memory: 'arena' as const, durationMs: options['call-ms'], signal: limited };
      progress(`constants for ${ranks} ranks`);
      const calibration = await measureCalls(calibrationCalls(ranks), shared);
      const machine = fitMachine(`this host, ${ranks} ranks`, ranks, calibration, processors);
      if (options.keep) writeTunedMachine(ranks, machine);
      progress(`other collectives among ${ranks}`);
      const run = { ranks, processors, calibration, heldOut: await measureCalls(heldOutCalls(), { ...shared, machine }) };
      runs.push(run);
      predicted.push(...predictHeldOut(run).map((time) => ({ ...time, ranks })));
    }
    const median = medianError(predicted);
    const each = all.map((ranks) => medianError(predicted.filter((time) => time.ranks === ranks)));
    const perRanks = all.map((ranks, i) => `${percent(each[i])} among ${ranks}`).join(', ');
    return say(
      {
        title: 'Calibration of this machine',
        subtitle: 'Collectives that were not measured for the constants',
        head: ['collective', 'algorithm', 'ranks', 'size', 'measured', 'predicted', 'error'],
        rows: predicted.map(({ collective, algorithm, ranks, bytes, seconds, predictedSeconds, error }) => [
          collective,
          algorithm ?? '',
          String(ranks),
          formatSize(bytes),
          `${significant(seconds * 1e6)} us`,
          `${significant(predictedSeconds * 1e6)} us`,
          `${error > 0 ? '+' : ''}${percent(error)}`,
        ]),
        note: `Median error ${percent(median)} (${perRanks}).`,
        document: { medianError: median, runs, predicted },
      },
      options.html,
      style,
    );
  },
});

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
