/** The lesson 14-survive-a-kill, started again by the launcher from its last checkpoint. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));

it('a job that lost a rank is started again and goes on after its last checkpoint', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-restart-'));
  try {
    const words = ['run', '-n', '3', '--restart', 'on-failure:1', 'examples/14-survive-a-kill/train.ts', 'restart', folder];
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout, stderr, status } = spawnSync(process.execPath, [join(root, 'bin', 'verbena.js'), ...words], {
      cwd: root,
      env,
      encoding: 'utf8',
      timeout: 150_000,
      killSignal: 'SIGKILL',
    });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /\[0\] restart 1: going on after step \d+0\n\[0\] 300 steps done, test accuracy 9\d\.\d %\n$/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
