/** Both ends of the example, as the README starts them. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { typescriptExecArgv } from '../../src/launch/typescript/typescript.js';

test('every ping comes back as it went', () => {
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const file = join('examples', '15-talk-to-the-kernel', 'ping.ts');
  const { stdout, stderr, status } = spawnSync(process.execPath, [...typescriptExecArgv(), file], {
    cwd: root,
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(stderr, '');
  assert.match(stdout, /^answered 10 pings$/m);
  assert.match(stdout, /^10 of 10 pings came back as they went, 4000 bytes each, through "7174"$/m);
  assert.equal(status, 0);
});
