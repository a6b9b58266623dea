/** Small trainings by several processes, for tests. */

import assert from 'node:assert/strict';
import { runRanks } from '../collectives/ranks.js';

export interface Trial {
  /** Default 'plain'. */
  readonly model?: 'plain' | 'rich' | 'heavy';
  /** Default 'sgd'. */
  readonly optimizer?: 'sgd' | 'adam';
  readonly momentum?: number;
  readonly rate?: number;
  /** Default 6. */
  readonly epochs?: number;
  readonly steps?: number;
  readonly shards?: number;
  readonly accumulate?: number;
  readonly bucketBytes?: number;
  readonly deadlineMs?: number;
  readonly localSteps?: number;
  readonly balance?: boolean;
  /** This rank takes 30 ms longer for every micro-batch; with `balance` 3 ms for every sample. */
  readonly slowRank?: number;
  readonly checkpoints?: string;
  readonly checkpointEvery?: number;
  /** Default 'wait'. */
  readonly whenBusy?: 'skip' | 'wait';
  /** Directory to go on from. */
  readonly resume?: string;
  /** The last rank aborts before this step; then all go on. */
  readonly abortAt?: number;
}

export interface Outcome {
  readonly parameters: Float32Array;
  readonly state: readonly number[];
  readonly steps: number;
  readonly samples: number;
  readonly buckets: number;
  readonly bytes: number;
  /** Of the average step, ms of the exchange that ran behind backward. */
  readonly hiddenMs: number;
  readonly accuracy: number;
  readonly counted: number;
  readonly losses: readonly number[];
  /** Samples of each rank in a whole batch, at last. */
  readonly shares: readonly number[];
  readonly restored: number;
  /** What the aborted call of `fit` threw, and the steps that were done then. */
  readonly aborted?: { readonly error: string; readonly steps: number };
  readonly straggler: { readonly rank?: number; readonly cause?: string; readonly factor: number };
  readonly checkpoints: {
    readonly begun: number;
    readonly committed: number;
    readonly skipped: number;
    readonly failure?: string;
  } | null;
}

/** What each trial left at rank 0; all ranks must have ended with the same parameters. */
export async function runTrials(size: number, trials: readonly Trial[]): Promise<Outcome[]> {
  const results = await runRanks(new URL('./scenarios/trial.js', import.meta.url), size, {
    watchdogMs: 120_000,
    env: () => ({ VERBENA_TRIALS: JSON.stringify(trials), VERBENA_BLAS: 'own' }),
  });
  for (const { end, stderr } of results) assert.equal(end, 0, stderr);
  return trials.map((_, i) => {
    const all = results.map(({ said }) => said[i]);
    for (const one of all) {
      assert.equal(one['parameters'], all[0]['parameters'], `trial ${i}: ranks ended with different parameters`);
      assert.deepEqual(one['state'], all[0]['state'], `trial ${i}: ranks ended with different state`);
    }
    const bytes = Buffer.from(all[0]['parameters'] as string, 'base64');
    const parameters = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    return { ...(all[0] as unknown as Outcome), parameters };
  });
}

/** The largest difference of two parameter vectors. */
export function difference(a: Float32Array, b: Float32Array): number {
  assert.equal(a.length, b.length);
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);
}
