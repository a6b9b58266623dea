/** Parameter servers among processes: what they compute, exactly once, also when one of them is killed. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { listCheckpoints } from '../../src/train/index.js';
import type { ServerOptimizer } from '../../src/train/parameter-server/server-optimizer.js';
import { type RanksOptions, runRanks } from '../collectives/ranks.js';
import { initial, type Job } from './scenarios/bowl.js';
import type { ServerTraining } from './scenarios/server-training.js';
import { alone, ended, killServer, parametersOf, play, serversOf } from './server-rounds.js';
import { difference } from './trials.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? Math.floor(Math.random() * 1e6));

describe('parameter servers', () => {
  const OPTIMIZERS: ServerOptimizer[] = [{ kind: 'adam', weightDecay: 0.01 }, { kind: 'sgd', momentum: 0.9 }, { kind: 'lamb' }];
  for (const [turn, optimizer] of OPTIMIZERS.entries()) {
    // Servers beside workers, on ranks of their own, and fewer of them than workers.
    const [servers, workers, size] = [
      [[0, 1], [0, 1], 2],
      [[2, 0], [1, 2, 3], 4],
      [[0], [1, 2], 3],
    ][turn] as [number[], number[], number];
    it(`sync, ${optimizer.kind}, servers [${servers}], workers [${workers}]: the bits of one process`, async () => {
      const job: Job = { floats: 1001, steps: 12, servers, workers, settings: { mode: 'sync', optimizer } };
      const results = await play(size, job);
      ended(results, [], SEED);
      const expected = alone(job, optimizer);
      const all = parametersOf(results, job);
      assert.equal(all.length, workers.length);
      for (const parameters of all) assert.deepEqual(parameters, expected);
      const counters = serversOf(results);
      const applied = counters.reduce((sum, one) => sum + one.applied, 0);
      assert.equal(applied, workers.length * servers.length * job.steps);
      for (const { mappedBytes, readBytes } of counters) {
        assert.ok(mappedBytes > 0 && readBytes === 0, 'gradients are read where they lie');
      }
    });
  }

  it('async applies every push exactly once', async () => {
    const optimizer: ServerOptimizer = { kind: 'sgd' };
    const job: Job = {
      floats: 500,
      steps: 40,
      servers: [0, 1],
      workers: [0, 1, 2],
      constant: true,
      slow: [1],
      settings: { mode: 'async', optimizer },
    };
    const results = await play(3, job);
    ended(results, [], SEED);
    for (const parameters of parametersOf(results, job)) {
      // 40 times each of 1, 2, 3, times 1/8, in any order: whole eighths, so exact but for the cosine they began with.
      const moved = initial(500).map((value, i) => value - parameters[i]);
      assert.ok(
        moved.every((one) => Math.abs(one - 30) < 1e-3),
        `${moved[0]}`,
      );
    }
  });

  it('ssp: a worker gets as far ahead as the bound, and no further', async () => {
    for (const staleness of [0, 2]) {
      const job: Job = {
        floats: 64,
        steps: 12,
        servers: [0],
        workers: [0, 1],
        gate: staleness,
        settings: { mode: 'ssp', staleness },
      };
      const results = await play(2, job);
      ended(results, [], SEED);
      assert.equal(results[1].said.find((line) => 'tooFar' in line)?.['tooFar'], false);
      const [first, second] = parametersOf(results, job);
      assert.deepEqual(first, second);
    }
  });

  const KILLS = [
    ['sync', 'shm'],
    ['async', 'shm'],
    ['sync', 'ucx'],
  ] as const;
  for (const [mode, provider] of KILLS) {
    const lacks = provider === 'ucx' && !existsSync('/usr/include/ucp/api/ucp.h');
    it(`${mode}, ${provider}: a server is killed in the middle; the replica goes on and nothing is applied twice`, {
      skip: lacks && 'needs apt-get install libucx-dev',
    }, async (test) => {
      // On a busy machine the kill may come after the last step: then it says nothing, and is tried again.
      for (let attempt = 0; attempt < 4; attempt++) {
        const { killed, longestMs } = await killServer(SEED + attempt, mode, provider);
        test.diagnostic(`seed ${SEED + attempt}: the longest step took ${longestMs.toFixed(0)} ms`);
        if (killed) return;
      }
      assert.fail('no kill came in time');
    });
  }

  it('a server is killed and there is no replica: the others go on from the checkpoint; or the step ends with ShardLost, and a new run from the checkpoint ends with its bits', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'verbena-servers-'));
    const run = (job: ServerTraining, heard?: RanksOptions['heard']) =>
      runRanks('../../train/scenarios/server-training', 2, {
        heard,
        watchdogMs: 240_000,
        env: () => ({ JOB: JSON.stringify(job), VERBENA_BLAS: 'own' }),
      });
    try {
      const job = { servers: 1, steps: 400 };
      const undisturbed = await run(job);
      ended(undisturbed, [], SEED);
      const at = 8 + (SEED % 18);
      // Checkpoints are written in the background: not before there is one.
      const kill: RanksOptions['heard'] = (rank, line, ranks) => {
        if (rank === 1 && (line['step'] as number) >= at && listCheckpoints(folder).length > 0) ranks[0].kill('SIGKILL');
      };
      const [, survivor] = await run({ ...job, checkpoints: folder }, kill);
      assert.equal(survivor.end, 0, survivor.stderr);
      const wentOn = survivor.said.find((line) => 'ranks' in line) as { ranks: number; from: number };
      assert.ok(wentOn.ranks === 1 && wentOn.from >= 5 && wentOn.from % 5 === 0, `${JSON.stringify(wentOn)}, seed ${SEED}`);
      const [whole, alone] = [undisturbed[1], survivor].map(
        ({ said }) => said.at(-1) as { parameters: number[]; adamSteps: number },
      );
      assert.equal(alone.adamSteps, job.steps);
      assert.ok(difference(Float32Array.from(whole.parameters), Float32Array.from(alone.parameters)) < 0.05, `seed ${SEED}`);
      rmSync(folder, { recursive: true });
      const interrupted = await run({ ...job, checkpoints: folder, onLoss: 'throw' }, kill);
      assert.deepEqual([interrupted[0].end, interrupted[1].end], ['SIGKILL', 1], interrupted[1].stderr);
      assert.match(interrupted[1].stderr, /shard 0 of the parameters is lost/, `seed ${SEED}`);
      const resumed = await run({ ...job, checkpoints: folder });
      ended(resumed, [], SEED);
      const from = resumed[0].said[0]['restored'] as number;
      assert.ok(from >= 5, `went on from step ${from}, seed ${SEED}`);
      const lines = [...undisturbed, ...resumed].map(({ said }) => said.at(-1));
      for (const line of lines) assert.deepEqual(line, lines[0], `seed ${SEED}`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('a rank that is worker and server is killed in a training: the others go on, with the moments of the servers', async () => {
    const job: ServerTraining = { servers: 3, steps: 60 };
    const at = 5 + (SEED % 30);
    const results = await runRanks('../../train/scenarios/server-training', 3, {
      watchdogMs: 240_000,
      env: () => ({ JOB: JSON.stringify(job), VERBENA_BLAS: 'own' }),
      heard: (rank, line, ranks) => {
        if (rank === 0 && line['step'] === at) ranks[1].kill('SIGKILL');
      },
    });
    ended(results, [1], SEED);
    const [first, second] = [results[0], results[2]].map(({ said }) => said.at(-1));
    assert.deepEqual(first, second, `seed ${SEED}`);
    assert.equal(first?.['adamSteps'], 60, `seed ${SEED}`);
    assert.ok(
      results[0].said.some(({ ranks }) => ranks === 2),
      `seed ${SEED}`,
    );
  });

  it('with a backup a stopped worker is left out of steps, and counts again when it goes on; every step is the mean of those who came, bit for bit', async (test) => {
    const optimizer: ServerOptimizer = { kind: 'adam' };
    const settings = { mode: 'sync', optimizer, backups: 1 } as const;
    const job: Job = { floats: 5000, steps: 300, servers: [0], workers: [1, 2, 3], slow: [0, 1, 2], tellSteps: true, settings };
    const stopAt = 10 + (SEED % 50);
    const results = await play(4, job, {
      heard: (rank, line, ranks) => {
        if (rank === 1 && line['step'] === stopAt) ranks[3].kill('SIGSTOP');
        if (rank === 1 && line['step'] === stopAt + 40) ranks[3].kill('SIGCONT');
      },
    });
    ended(results, [], SEED);
    const taken = job.workers.map((rank) => new Set(results[rank].said.map((line) => line['taken'] as number | undefined)));
    const missed = Array.from({ length: job.steps }, (_, step) => step).filter((step) => !taken[2].has(step));
    test.diagnostic(`seed ${SEED}: stopped from step ${stopAt} on, left out of ${missed.length} steps`);
    assert.ok(missed.length >= 30, `the others waited: it is missing in ${missed} (seed ${SEED})`);
    assert.ok(
      [...taken[2]].some((step) => step !== undefined && step > stopAt + 40),
      `it never counted again (seed ${SEED})`,
    );
    const expected = alone(job, optimizer, (worker, step) => taken[worker].has(step));
    for (const parameters of parametersOf(results, job)) assert.deepEqual(parameters, expected, `seed ${SEED}`);
    const [{ applied, late }] = serversOf(results);
    const counted = taken.reduce((sum, steps) => sum + [...steps].filter((step) => step !== undefined).length, 0);
    assert.equal(applied, counted, `seed ${SEED}`);
    assert.ok(late >= 1, `seed ${SEED}`);
  });

  it('a worker is killed: the others go on with the mean of those who are left', async () => {
    const job: Job = {
      floats: 100,
      steps: 30,
      servers: [0],
      workers: [1, 2, 3],
      dying: [3],
      tellSteps: true,
      settings: { mode: 'sync', optimizer: { kind: 'sgd' } },
    };
    const results = await play(4, job, {
      heard: (rank, line, ranks) => {
        if (rank === 1 && line['step'] === 5) ranks[3].kill('SIGKILL');
      },
    });
    ended(results, [3], SEED);
    const [first, second] = parametersOf(results, job);
    assert.deepEqual(first, second);
    // Far past the death only the two that live count: the result lies at the weighted mean of their places, to what is left after 25 steps.
    const far = alone({ ...job, steps: 200, workers: [1, 2] }, { kind: 'sgd' });
    const worst = first.reduce((most, value, i) => Math.max(most, Math.abs(value - far[i])), 0);
    assert.ok(worst < 0.15, `${worst}`);
  });
});
