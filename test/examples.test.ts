/** The examples run as their README says and print what it shows. Those that need several ranks are run by tests beside them. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const WATCHDOG_MS = 120_000;

/** What a program prints, and its README shows; a README may leave lines out. */
const EXAMPLES: Readonly<Record<string, RegExp>> = {
  '01-hello-read/owner.ts': /^process \d+ read 64 bytes \(SUCCESS\): "hello from the memory of process \d+"\n$/,
  '02-ring-buffer/receiver.ts': /^received 1001 messages, 10893 bytes, through a ring of 8 slots\n$/,
  '03-one-sided-counter/owner.ts': /^counted to 60000 by 3 processes while blocked; turns of the event loop: 0\n$/,
  '04-tag-ping-pong/tag-ping-pong.ts':
    /^10000 rounds, [\d.]+ us one way, with promises\n8 bytes go by eager-short, 1 MiB by rndv-get\n$/,
  '05-active-message-rpc/active-message-rpc.ts': /^roots of 4, 9, 16: 2 3 4\na million roots, the last is 999999: .*\n$/,
  '06-stream-file-copy/stream-file-copy.ts': /^20 MB copied through a stream in [\d.]+ s, unchanged\n$/,
  '15-talk-to-the-kernel/ping.ts':
    /^(?=[\s\S]*^answered 10 pings$)(?=[\s\S]*^10 of 10 pings came back as they went, 4000 bytes each, through "7174"$)/m,
  '16-plan-a-cluster/plan-a-cluster.ts':
    /^1\. Networks[\s\S]* -> blocking-fat-tree\n2\. All-reduce.*\n {3}hierarchical .*[\s\S]*\n3\. Training.*\n {3}data 8 x tensor 4 x pipeline 32.*\n {3}not [\s\S]*% slower/,
};

describe('examples', () => {
  for (const [example, prints] of Object.entries(EXAMPLES)) {
    const path = join('examples', example);

    it(`${example} runs as its README says and prints what it shows`, () => {
      const { stdout, stderr, status, signal } = spawnSync(process.execPath, [join('bin', 'verbena.js'), 'exec', path], {
        cwd: root,
        encoding: 'utf8',
        timeout: WATCHDOG_MS,
        killSignal: 'SIGKILL',
      });
      assert.match(stdout, prints, stderr);
      assert.equal(stderr, '');
      assert.equal(status, 0, `ended by ${signal}`);
      const [, command, , output] = readFileSync(join(root, dirname(path), 'README.md'), 'utf8').split('```');
      assert.equal(command.trim(), `verbena exec ${path}`);
      assert.match(output.trimStart(), prints);
    });
  }
});
