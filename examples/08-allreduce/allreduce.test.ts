import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jobTest } from '../../test/launch/job.js';

const folder = fileURLToPath(new URL('../../../examples/08-allreduce', import.meta.url));
const script = join(folder, 'allreduce.ts');

jobTest('the example averages among four processes and prints what its README shows', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', script]);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const shown = readFileSync(join(folder, 'README.md'), 'utf8').split('```')[3].trim();
  assert.equal(job.stdout.trim(), shown);
});

jobTest('the example averages among two hosts over messages', async (stage) => {
  const job = stage.verbena(['run', '--virtual-hosts', '2x2', script]);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.match(job.stdout, /messaging: the ranks live on 2 hosts/);
  assert.match(job.stdout, /with hierarchical\S*: right everywhere/);
});
