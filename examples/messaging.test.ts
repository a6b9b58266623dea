/** The messaging examples run as they stand and say what they should. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const { NODE_TEST_CONTEXT: _, ...env } = process.env;

const expected: Record<string, RegExp> = {
  '04-tag-ping-pong/tag-ping-pong': /10000 rounds, [\d.]+ us one way[\s\S]*eager-short, 1 MiB by rndv-get/,
  '05-active-message-rpc/active-message-rpc': /roots of 4, 9, 16: 2 3 4[\s\S]*the last is 999999/,
  '06-stream-file-copy/stream-file-copy': /20 MB copied through a stream in [\d.]+ s, unchanged/,
};

for (const [example, output] of Object.entries(expected)) {
  test(`examples/${example} runs`, { timeout: 60_000 }, async () => {
    const { stdout } = await run(process.execPath, [fileURLToPath(new URL(`./${example}.js`, import.meta.url))], {
      env,
      timeout: 50_000,
    });
    assert.match(stdout, output);
  });
}
