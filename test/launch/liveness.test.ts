/** Every rank learns who died, within a second, while its thread is blocked; and a stall is explained. */

import assert from 'node:assert/strict';
import { noticeLimitMs } from '../load.js';
import { ACTOR, jobTest, type Running, type Stage } from './job.js';

interface Saw {
  readonly rank: number;
  readonly seen: boolean;
  readonly atMs: number;
  readonly lost: { rank: number; reason: string; host: string }[];
  readonly states: string[];
}

/** Ranks by torchrun's names: no launcher of ours, the coordinator is in rank 0. */
function strangers(stage: Stage, size: number, role: string): Running[] {
  return Array.from({ length: size }, (_, rank) =>
    stage.verbena(['exec', ACTOR, role], {
      RANK: String(rank),
      WORLD_SIZE: String(size),
      LOCAL_WORLD_SIZE: String(size),
      TORCHELASTIC_RUN_ID: stage.mark,
    }),
  );
}

function assertSaw(saw: readonly Saw[], victim: number, killedAtMs: number, reason: RegExp): void {
  const limitMs = noticeLimitMs();
  for (const { rank, lost, atMs } of saw) {
    assert.deepEqual(
      lost.map((one) => one.rank),
      [victim],
      `rank ${rank}`,
    );
    assert.match(lost[0].reason, reason);
    assert.ok(atMs - killedAtMs < limitMs, `rank ${rank} learned it after ${atMs - killedAtMs} ms`);
  }
}

jobTest('blocked ranks see within a second who was killed, and why', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', '--keep-going', ACTOR, 'watch']);
  const ready = await job.hear<{ rank: number; pid: number }>('ready', 4);
  process.kill(ready.find(({ rank }) => rank === 2)?.pid ?? 0, 'SIGKILL');
  const killedAtMs = Date.now();
  assertSaw(await job.hear<Saw>('saw', 3), 2, killedAtMs, /killed by SIGKILL/);
  assert.deepEqual(await job.ended, { code: 137, signal: null });
});

jobTest('a listener, a check and a barrier name the lost rank', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', '--keep-going', ACTOR, 'listen']);
  const ready = await job.hear<{ rank: number; pid: number }>('ready', 3);
  process.kill(ready.find(({ rank }) => rank === 0)?.pid ?? 0, 'SIGKILL');
  const saw = await job.hear<Saw & { errors: string[] }>('saw', 2);
  for (const { lost, errors } of saw) {
    assert.equal(lost[0].rank, 0);
    assert.match(errors[0], /rank 0 \(pid \d+ on .*is lost: was killed by SIGKILL/);
    assert.equal(errors[1], 'LAUNCH_RANK_LOST');
  }
  await job.ended;
});

jobTest('a rank that leaves in peace is not lost', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'watch', '1', '1500']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const saw = job.heard<Saw>('saw');
  assert.equal(saw.length, 2);
  for (const { seen, states } of saw) {
    assert.equal(seen, false);
    assert.equal(states[1], 'left');
  }
});

jobTest('under a foreign launcher, ranks see that one of them was killed', async (stage) => {
  const ranks = strangers(stage, 3, 'watch');
  const [ready] = (await Promise.all(ranks.map((rank) => rank.hear<{ pid: number }>('ready', 1)))).slice(2);
  process.kill(ready[0].pid, 'SIGKILL');
  const killedAtMs = Date.now();
  const saw = await Promise.all(ranks.slice(0, 2).map((rank) => rank.hear<Saw>('saw', 1)));
  assertSaw(saw.flat(), 2, killedAtMs, /ended without a word/);
  await Promise.all(ranks.map(({ ended }) => ended));
});

jobTest('under a foreign launcher, ranks see that rank 0, which holds the coordinator, was killed', async (stage) => {
  const ranks = strangers(stage, 3, 'watch');
  const ready = await Promise.all(ranks.map((rank) => rank.hear<{ pid: number }>('ready', 1)));
  process.kill(ready[0][0].pid, 'SIGKILL');
  const killedAtMs = Date.now();
  const saw = await Promise.all(ranks.slice(1).map((rank) => rank.hear<Saw>('saw', 1)));
  assertSaw(saw.flat(), 0, killedAtMs, /ended without a word|process is gone/);
  await Promise.all(ranks.map(({ ended }) => ended));
});

jobTest('a receive through the worker of the world is explained when it stalls', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'stalledReceive']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.heard('through').length, 2);
  assert.match(
    job.stderr,
    /stalled for \d+\.\d s: waiting for rank 0\n[\s\S]*rank 1: in tag receive #5 with rank 0 for \d+\.\d s/,
  );
});

jobTest('so is any other call that waits for a rank', async (stage) => {
  const job = stage.verbena(['run', '-n', '2', ACTOR, 'stalledStream']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.match(job.stderr, /rank 1: in stream read with rank 0 for \d+\.\d s/);
});

jobTest('a stall names who is missing and where each rank waits, although threads are blocked', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ACTOR, 'stall']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.heard('through').length, 3);
  assert.match(job.stderr, /stalled for \d+\.\d s: waiting for rank 0\n/);
  assert.match(job.stderr, /rank 0: in no call of Verbena/);
  assert.match(job.stderr, /rank 1: in receive #42 with rank 0 for \d+\.\d s/);
  assert.match(job.stderr, /rank 2: in barrier 'verbena\/world' for \d+\.\d s/);
  assert.ok(job.heard<{ report: string }>('stall').some(({ report }) => report.includes('waiting for rank 0')));
});
