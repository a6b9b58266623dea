import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

test('the example averages among four processes and prints what its README shows', () => {
  const main = fileURLToPath(new URL('./main.js', import.meta.url));
  const { stdout, stderr, status } = spawnSync(process.execPath, [main], {
    encoding: 'utf8',
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  assert.equal(status, 0, stderr);
  const readme = readFileSync(new URL('../../../examples/08-allreduce/README.md', import.meta.url), 'utf8');
  assert.equal(stdout.trim(), readme.split('```')[3].trim());
});
