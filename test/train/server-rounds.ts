/** Rounds of parameter servers as processes, what they must compute, and kills at moments that a seed draws. */

import assert from 'node:assert/strict';
import { Random } from '../../src/nn/index.js';
import { weightedSum } from '../../src/train/compression/kernels.js';
import type { ServerCounters } from '../../src/train/parameter-server/server.js';
import { makeOptimizer, type ServerOptimizer } from '../../src/train/parameter-server/server-optimizer.js';
import { type RankResult, type RanksOptions, runRanks } from '../collectives/ranks.js';
import { bowl, initial, type Job, RATE, rangesOf, weightOf } from './scenarios/bowl.js';

/** What one process computes: the mean of the workers' gradients in every step; of those only whom `isTaken` names. Default: all. */
export function alone(
  { floats, steps, workers }: Job,
  description: ServerOptimizer,
  isTaken: (worker: number, step: number) => boolean = () => true,
): Float32Array {
  const parameters = initial(floats);
  const gradients = new Float32Array(floats);
  const optimizer = makeOptimizer(description, { parameters, gradients, ranges: rangesOf(floats) });
  const each = workers.map(() => new Float32Array(floats));
  for (let step = 0; step < steps; step++) {
    const taken = [...each.keys()].filter((w) => isTaken(w, step));
    const total = taken.reduce((sum, w) => sum + weightOf(w), 0);
    for (const w of taken) bowl(parameters, each[w], w, step);
    weightedSum(
      gradients,
      taken.map((w) => each[w]),
      taken.map((w) => weightOf(w) / total),
    );
    optimizer.step(RATE);
  }
  return parameters;
}

export function play(size: number, job: Job, options: RanksOptions = {}): Promise<RankResult[]> {
  return runRanks('../../train/scenarios/parameter-servers', size, {
    ...options,
    watchdogMs: 240_000,
    env: () => ({ JOB: JSON.stringify(job) }),
  });
}

export function ended(results: readonly RankResult[], except: readonly number[], seed: number): void {
  for (const { rank, end, stderr } of results) {
    if (!except.includes(rank)) assert.equal(end, 0, `rank ${rank} ended with ${end} (seed ${seed}): ${stderr}`);
  }
}

/** What the workers ended with. */
export function parametersOf(results: readonly RankResult[], job: Job): Float32Array[] {
  return job.workers.flatMap((rank) => {
    const said = results[rank].said.find((line) => 'parameters' in line);
    return said === undefined ? [] : [Float32Array.from(said['parameters'] as number[])];
  });
}

export function serversOf(results: readonly RankResult[], except: readonly number[] = []): ServerCounters[] {
  return results
    .filter(({ rank }) => !except.includes(rank))
    .flatMap(({ said }) => said.flatMap((line) => (line['server'] ? [line['server'] as ServerCounters] : [])));
}

export interface Killed {
  /** The kill came before the last step was done. */
  readonly killed: boolean;
  /** The longest time between two steps of a worker, ms. */
  readonly longestMs: number;
}

/**
 * One round: two or three servers, two workers; a server is killed at a moment that the seed draws. Synchronous steps must end with the bits of one process, asynchronous
 * ones with every push applied once.
 */
export async function killServer(seed: number, mode: 'sync' | 'async', provider = 'shm'): Promise<Killed> {
  const random = new Random(seed);
  const servers = Array.from({ length: 2 + random.integer(2) }, (_, i) => i);
  const optimizer: ServerOptimizer = mode === 'sync' ? { kind: 'adam' } : { kind: 'sgd' };
  const workers = [servers.length, servers.length + 1];
  const job: Job = {
    floats: 20_000,
    steps: 30,
    servers,
    workers,
    settings: { mode, optimizer, provider },
    constant: mode === 'async',
    tellSteps: true,
  };
  const [victim, at, delayMs] = [random.integer(servers.length), 1 + random.integer(22), 4 * random.uniform()];
  let last = 0;
  let longestMs = 0;
  const results = await play(servers.length + 2, job, {
    heard: (rank, line, ranks) => {
      if (rank !== workers[0] || !('step' in line)) return;
      const now = performance.now();
      if (last > 0) longestMs = Math.max(longestMs, now - last);
      last = now;
      if (line['step'] === at) setTimeout(() => ranks[victim].kill('SIGKILL'), delayMs);
    },
  });
  ended(results, [victim], seed);
  const all = parametersOf(results, job);
  assert.equal(all.length, 2, `seed ${seed}`);
  const expected = mode === 'sync' ? alone(job, optimizer) : initial(job.floats).map((value) => value - (30 * 3) / 8);
  for (const parameters of all) {
    if (mode === 'sync') assert.deepEqual(parameters, expected, `seed ${seed}`);
    const worst = parameters.reduce((most, one, i) => Math.max(most, Math.abs(one - expected[i])), 0);
    assert.ok(worst < 1e-3, `${worst} away, seed ${seed}`);
  }
  const killed = results[victim].end === 'SIGKILL';
  const takenOver = serversOf(results, [victim]).reduce((sum, one) => sum + one.takenOver, 0);
  // A kill after the last grant leaves the final pull to find the replica, or nothing to find.
  if (killed) assert.ok(takenOver <= 1, `seed ${seed}`);
  return { killed: killed && takenOver === 1, longestMs };
}
