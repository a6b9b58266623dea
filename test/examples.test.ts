/** The examples run as their README says, with the TypeScript loader where Node needs one, and print what it shows. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { typescriptExecArgv } from '../src/launch/typescript/typescript.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const WATCHDOG_MS = 120_000;

interface Example {
  readonly folder: string;
  readonly main: string;
  readonly prints: RegExp;
}

const EXAMPLES: readonly Example[] = [
  {
    folder: '01-hello-read',
    main: 'owner.ts',
    prints: /^process \d+ read 64 bytes \(SUCCESS\): "hello from the memory of process \d+"\n$/,
  },
  {
    folder: '02-ring-buffer',
    main: 'receiver.ts',
    prints: /^received 1001 messages, 10893 bytes, through a ring of 8 slots\n$/,
  },
  {
    folder: '03-one-sided-counter',
    main: 'owner.ts',
    prints: /^counted to 60000 by 3 processes while blocked; turns of the event loop: 0\n$/,
  },
];

describe('examples', () => {
  for (const { folder, main, prints } of EXAMPLES) {
    const path = join('examples', folder, main);
    const readme = readFileSync(join(root, 'examples', folder, 'README.md'), 'utf8');

    it(`${folder} runs and prints what it should`, () => {
      const { stdout, stderr, status, signal } = spawnSync(process.execPath, [...typescriptExecArgv(), path], {
        cwd: root,
        encoding: 'utf8',
        timeout: WATCHDOG_MS,
        killSignal: 'SIGKILL',
      });
      assert.match(stdout, prints, stderr);
      assert.equal(stderr, '');
      assert.equal(status, 0, `ended by ${signal}`);
    });

    it(`${folder} is started by the command in its README, which shows this output`, () => {
      assert.match(readme, new RegExp(`^node ${path} `, 'm'));
      assert.match(readme, new RegExp(`^node --import verbena/typescript ${path} `, 'm'));
      const blocks = readme.split('```').filter((_, i) => i % 2 === 1);
      assert.match(blocks[1].trimStart(), prints);
    });
  }
});
