/** `verbena exec` under the launchers of clusters: Open MPI, MPICH, and a Slurm of one node. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ACTOR, type Running, Stage, VERBENA } from '../launch/job.js';
import { noticeLimitMs } from '../load.js';
import { OneNodeSlurm } from './launchers-slurm.js';

const { ensureCommands } = (await import(new URL('../../../scripts/system-packages.mjs', import.meta.url).href)) as {
  ensureCommands(packages: Record<string, string>): string[];
};
const missing = ensureCommands({
  'mpirun.openmpi': 'openmpi-bin',
  'mpiexec.hydra': 'mpich',
  srun: 'slurm-wlm',
  slurmctld: 'slurm-wlm',
  munged: 'munge',
});

/** Why a launcher cannot be tested here, or false. */
function unavailable(...commands: string[]): string | false {
  const absent = commands.filter((command) => missing.includes(command));
  return absent.length > 0 && `${absent.join(', ')} not installed`;
}

interface LauncherCase {
  readonly launcher: string;
  command(ranks: number): readonly string[];
  env(): Record<string, string>;
}

async function staged(body: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = new Stage();
  try {
    await body(stage);
    await stage.assertNothingLeft();
  } finally {
    await stage.abandon();
    stage.remove();
  }
}

function start(stage: Stage, one: LauncherCase, ranks: number, words: readonly string[]): Running {
  const [command, ...args] = one.command(ranks);
  return stage.start(command, [...args, process.execPath, VERBENA, 'exec', ...words], one.env());
}

/** What holds under every launcher. */
function suite(one: LauncherCase, skip: string | false): void {
  const limits = { skip, timeout: 60_000 };

  test('four ranks find each other', limits, () =>
    staged(async (stage) => {
      const job = start(stage, one, 4, [ACTOR, 'hello']);
      assert.equal((await job.ended).code, 0, job.stdout + job.stderr);
      const hello = job
        .heard<{ rank: number; localRank: number; size: number; launcher: string }>('hello')
        .sort((a, b) => a.rank - b.rank);
      assert.deepEqual(
        hello.map(({ rank, localRank, size, launcher }) => ({ rank, localRank, size, launcher })),
        [0, 1, 2, 3].map((rank) => ({ rank, localRank: rank, size: 4, launcher: one.launcher })),
      );
    }),
  );

  test('two jobs at the same time do not meet each other', limits, () =>
    staged(async (stage) => {
      const jobs = [start(stage, one, 2, [ACTOR, 'hello']), start(stage, one, 2, [ACTOR, 'hello'])];
      for (const job of jobs) {
        assert.equal((await job.ended).code, 0, job.stdout + job.stderr);
        assert.deepEqual(
          job.heard('hello').map(({ size }) => size),
          [2, 2],
        );
      }
    }),
  );

  test('a killed rank is named by the others within a second, and the job ends', limits, () =>
    staged(async (stage) => {
      const job = start(stage, one, 3, [ACTOR, 'watch']);
      const ready = await job.hear<{ rank: number; pid: number }>('ready', 3);
      // `rank` of the message is that of variables which this launcher does not set; the order of pids is that of the ranks.
      const victim = ready.map(({ pid }) => pid).sort((a, b) => a - b)[2];
      process.kill(victim, 'SIGKILL');
      const killedAtMs = Date.now();
      await job.ended;
      const saw = job.heard<{ atMs: number; lost: { rank: number; pid: number }[] }>('saw');
      // A launcher that ends the others may be faster than their last line; one that leaves them alone is not.
      if (one.launcher === 'slurm') assert.equal(saw.length, 2, job.stdout + job.stderr);
      const limitMs = noticeLimitMs();
      for (const { atMs, lost } of saw) {
        assert.deepEqual(
          lost.map(({ pid }) => pid),
          [victim],
        );
        assert.ok(atMs - killedAtMs < limitMs, `${atMs - killedAtMs} ms`);
      }
    }),
  );
}

describe('Open MPI', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'verbena-openmpi-'));
  after(() => rmSync(scratch, { recursive: true, force: true }));
  suite(
    {
      launcher: 'openmpi',
      command: (ranks) => ['mpirun.openmpi', '-n', String(ranks)],
      env: () => ({
        OMPI_ALLOW_RUN_AS_ROOT: '1',
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
        OMPI_MCA_rmaps_base_oversubscribe: '1',
        OMPI_MCA_orte_tmpdir_base: mkdtempSync(join(scratch, 'job-')), // two mpirun that make one at the same time fail each other
      }),
    },
    unavailable('mpirun.openmpi'),
  );
});

describe('MPICH', () => {
  suite(
    { launcher: 'mpich', command: (ranks) => ['mpiexec.hydra', '-n', String(ranks)], env: () => ({}) },
    unavailable('mpiexec.hydra'),
  );
});

describe('Slurm of one node', () => {
  const skip = unavailable('srun', 'slurmctld', 'munged') || (process.getuid?.() !== 0 && 'its daemons need root');
  const slurm = new OneNodeSlurm();
  before(async () => {
    if (!skip) await slurm.start(4);
  });
  after(async () => {
    await slurm.stop();
  });
  suite({ launcher: 'slurm', command: (ranks) => ['srun', '--overcommit', '-n', String(ranks)], env: () => slurm.env }, skip);
});
