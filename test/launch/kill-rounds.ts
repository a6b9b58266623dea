/**
 * Rounds of random kill -9: of a rank or of the launcher, at any moment from before init() to long after, with ranks that are blocked or not.
 *
 * After each: whoever survives names the right rank within the bound, the launcher names it too, and nothing is left behind.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Random } from '../processes/random.js';
import { ACTOR, marked, pause, type Running, Stage } from './job.js';

interface Saw {
  readonly rank: number;
  readonly atMs: number;
  readonly lost: { rank: number; reason: string }[];
}

export interface KillTotals {
  rounds: number;
  launchers: number;
  ranks: number;
  early: number;
  slowestMs: number;
}

/** The pid of a rank, by what the launcher put into its environment. */
function pidOf(stage: Stage, rank: number): number | undefined {
  return marked(stage.mark).find((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`VERBENA_RANK=${rank}`);
    } catch {
      return false;
    }
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

async function killRank(
  stage: Stage,
  job: Running,
  victim: number,
  size: number,
  boundMs: number,
  totals: KillTotals,
): Promise<void> {
  const ready = await job.hear<{ rank: number; pid: number }>('ready', size);
  kill(ready.find(({ rank }) => rank === victim)?.pid ?? 0);
  const killedAtMs = Date.now();
  const saw = await job.hear<Saw>('saw', size - 1);
  for (const { rank, lost, atMs } of saw) {
    assert.deepEqual(
      lost.map((one) => one.rank),
      [victim],
      `rank ${rank} names the wrong one`,
    );
    totals.slowestMs = Math.max(totals.slowestMs, atMs - killedAtMs);
    assert.ok(atMs - killedAtMs < boundMs, `rank ${rank} learned it after ${atMs - killedAtMs} ms`);
  }
  assert.deepEqual(await job.ended, { code: 137, signal: null });
  assert.match(job.stderr, new RegExp(`rank ${victim} \\(pid \\d+ on [^)]+\\) was killed by SIGKILL`));
  await stage.assertNothingLeft();
}

async function round(random: Random, boundMs: number, totals: KillTotals): Promise<void> {
  const stage = new Stage();
  const size = random.between(2, 4);
  const victim = random.between(-1, size - 1);
  const role = random.pick(['watch', 'listen']);
  const early = random.between(0, 2) === 0;
  const job = stage.verbena(['run', '-n', String(size), '--keep-going', '--grace', '1', ACTOR, role]);
  try {
    if (victim < 0) {
      totals.launchers++;
      if (early) await pause(random.between(0, 400));
      else await job.hear('ready', size);
      kill(job.pid);
      await job.ended;
    } else if (early) {
      totals.early++;
      // Somewhere between its start and init(): the others must not wait for it for ever.
      let pid: number | undefined;
      while (pid === undefined && job.process.exitCode === null) {
        await pause(random.between(0, 100));
        pid = pidOf(stage, victim);
      }
      kill(pid ?? 0);
      await job.ended;
      assert.match(job.stderr, new RegExp(`rank ${victim} \\(pid \\d+ on [^)]+\\) was killed by SIGKILL`));
    } else {
      totals.ranks++;
      await killRank(stage, job, victim, size, boundMs, totals);
    }
    await stage.assertNothingLeft();
  } catch (error) {
    throw new Error(
      `size ${size}, victim ${victim < 0 ? 'launcher' : victim}, ${role}, ${early ? 'early' : 'late'}: ${(error as Error).message}\n${job.stdout}${job.stderr}`,
      { cause: error },
    );
  } finally {
    await stage.abandon();
    stage.remove();
  }
}

/** Runs `count` rounds from a seed; stops at the first that fails, and where somebody learns of a death later than `boundMs`. */
export async function killRounds(seed: number, count: number, boundMs: number): Promise<KillTotals> {
  const random = new Random(seed);
  const totals: KillTotals = { rounds: 0, launchers: 0, ranks: 0, early: 0, slowestMs: 0 };
  for (; totals.rounds < count; totals.rounds++) await round(random, boundMs, totals);
  return totals;
}

/** Launcher and ranks die in the same moment, while or after the ranks of two virtual hosts connect over shared memory and the network: nobody is there to clean up. */
export async function killEverybody(seed: number, count: number): Promise<void> {
  const random = new Random(seed);
  for (let round = 0; round < count; round++) {
    const stage = new Stage();
    const job = stage.verbena(['run', '--virtual-hosts', '2x2', ACTOR, 'mesh', 'stay']);
    try {
      if (round % 2 === 0) await job.hear('mesh', 4);
      else await pause(random.between(0, 3000));
      for (const pid of marked(stage.mark)) kill(pid);
      await job.ended;
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
    }
  }
}
