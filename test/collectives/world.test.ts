/** Communicators of the ranks of `init()`. */

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { jobTest } from '../launch/job.js';
import { noticeLimitMs } from '../load.js';

const ROLES = fileURLToPath(new URL('./scenarios/world.js', import.meta.url));

jobTest('the ranks of a world make communicators, one after the other', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', ROLES, 'sums']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.heard('done').length, 3);
});

jobTest('a stall report names the collective that waits and the rank that is missing', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', '--grace', '1', ROLES, 'stall']);
  await job.ended;
  const [{ report }] = job.heard<{ report: string }>('stall');
  assert.match(report, /waiting for rank 0\n/);
  assert.match(report, /ranks 1, 2: in allreduce #1 for/);
});

jobTest('a rank that died before it came is named', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', '--keep-going', ROLES, 'absent']);
  await job.ended;
  assert.equal(job.heard('heard').length, 2, job.stderr);
});

jobTest('ranks of two hosts use messages between them and shared memory inside, and hierarchical forms', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', '--virtual-hosts', '2x2', ROLES, 'hosts']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const done = job.heard<{ chosen: Record<string, string> }>('done');
  assert.equal(done.length, 4);
  for (const { chosen } of done) assert.match(chosen['allreduce'], /^hierarchical/);
});

for (const [where, words] of [
  ['on two hosts', ['--virtual-hosts', '2x2', ROLES, 'killed']],
  ['on one host', [ROLES, 'killed', 'messaging']],
] as const) {
  jobTest(
    `a rank killed ${where} is named to those who exchange messages within a second, who shrink and go on`,
    async (stage) => {
      const job = stage.verbena(['run', '-n', '4', '--keep-going', ...words]);
      await job.ended;
      const heard = job.heard<{ at: number }>('heard');
      assert.equal(heard.length, 3, job.stdout + job.stderr);
      const [killed] = job.heard<{ at: number }>('killed');
      const limitMs = noticeLimitMs();
      for (const { at } of heard) assert.ok(at - killed.at < limitMs, `noticed after ${at - killed.at} ms`);
    },
  );
}

jobTest('ranks of a world join a communicator that grows', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', ROLES, 'grow']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stdout + job.stderr);
  assert.deepEqual(
    job
      .heard<{ rank: number }>('done')
      .map(({ rank }) => rank)
      .sort(),
    [0, 1, 2, 3],
  );
});
