/** A RoCE device under a million mutated packets: the test of test/roce/hostile, for longer. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const HOSTILE = fileURLToPath(new URL('../roce/hostile.test.js', import.meta.url));
const NAMESPACES = fileURLToPath(new URL('../roce/namespaces.test.js', import.meta.url));

function passes(file: string, env: Readonly<Record<string, string>>, timeoutMs: number): void {
  const { status, stdout, error } = spawnSync(process.execPath, ['--test', file], {
    encoding: 'utf8',
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env },
    timeout: timeoutMs,
    maxBuffer: 64 << 20,
  });
  assert.equal(status, 0, `${error?.message ?? ''}${stdout.slice(-4000)}`);
}

test('a million mutated packets change nothing outside the region, and the device works on', () => {
  passes(HOSTILE, { VERBENA_PACKETS: '1000000' }, 3_600_000);
});

test('conformance between two namespaces with 1 % and 5 % loss, at full length', () => {
  passes(NAMESPACES, { VERBENA_LOSS: '0,1,5', VERBENA_SCALE: '0.5' }, 3_600_000);
});
