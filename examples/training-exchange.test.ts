/** Examples 11 to 13 run by the command in their README and print what it shows. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe('examples of gradient exchange', () => {
  for (const folder of ['11-parameter-server', '12-jax-adapter', '13-tfjs-adapter']) {
    it(folder, () => {
      const [, command, , output] = readFileSync(join(root, 'examples', folder, 'README.md'), 'utf8').split('```');
      const [program, ...words] = command.trim().split(' ');
      assert.equal(program, 'verbena');
      const { stdout, stderr, status } = spawnSync(process.execPath, [join('bin', 'verbena.js'), ...words], {
        cwd: root,
        encoding: 'utf8',
        timeout: 120_000,
        killSignal: 'SIGKILL',
      });
      assert.equal(status, 0, stderr);
      const lines = (text: string) => text.trim().split('\n').sort();
      assert.deepEqual(lines(stdout), lines(output));
    });
  }
});
