import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jobTest } from '../../test/launch/job.js';

const folder = fileURLToPath(new URL('../../../examples/09-write-your-own-algorithm', import.meta.url));
const script = join(folder, 'two-way-ring.ts');

jobTest('the algorithm of the example is proved, drawn and run as its README shows', async (stage) => {
  const pictures = join(stage.directory, 'pictures');
  const job = stage.verbena(['run', '-n', '4', script, pictures]);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const shown = readFileSync(join(folder, 'README.md'), 'utf8').split('```')[3].trim();
  assert.equal(job.stdout.trim(), shown);
  assert.match(readFileSync(join(pictures, 'two-way-ring.svg'), 'utf8'), /^<svg[\s\S]*two-way-ring[\s\S]*<\/svg>\s*$/);
  const hosts = stage.verbena(['run', '--virtual-hosts', '3x1', script]);
  assert.deepEqual(await hosts.ended, { code: 0, signal: null }, hosts.stderr);
  assert.match(hosts.stdout, /averaged on messaging: 2\n/);
  rmSync(pictures, { recursive: true });
});
