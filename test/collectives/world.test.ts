/** Communicators of the ranks of `init()`. */

import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { jobTest } from '../launch/job.js';

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
