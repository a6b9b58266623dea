/** A RoCE device under a million mutated packets, with an addon built with sanitizers: the test of test/roce/hostile, for longer. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileAddon } from '../../src/native/build.js';

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

test('a million mutated packets change nothing outside the region, and the device works on', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-soak-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const addon = join(folder, 'sanitized.node');
  compileAddon(addon, { flags: ['-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'] });
  const runtime = spawnSync('cc', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).stdout.trim();
  passes(
    HOSTILE,
    {
      VERBENA_PACKETS: process.env['VERBENA_PACKETS'] ?? '1000000',
      VERBENA_ADDON: addon,
      LD_PRELOAD: runtime,
      ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1:allow_user_segv_handler=1',
    },
    3_600_000,
  );
});

test('conformance between two namespaces with 1 % and 5 % loss, at full length', () => {
  passes(NAMESPACES, { VERBENA_LOSS: '0,1,5', VERBENA_SCALE: '0.5' }, 3_600_000);
});
