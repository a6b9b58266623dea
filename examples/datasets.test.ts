/** The examples about datasets run as their README says. */

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jobTest, type Stage } from '../test/launch/job.js';

const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));

async function output(stage: Stage, words: readonly string[]): Promise<string> {
  const job = stage.verbena(words, {}, 120_000);
  const { code } = await job.ended;
  assert.equal(code, 0, job.stderr + job.stdout);
  return job.stdout;
}

jobTest('17-word-count prints what its README shows', async (stage) => {
  const folder = join(EXAMPLES, '17-word-count');
  const text = await output(stage, ['exec', join(folder, 'count.ts'), join(EXAMPLES, '..', 'LICENSE')]);
  assert.equal(text, readFileSync(join(folder, 'README.md'), 'utf8').split('```\n')[3]);
});

jobTest('18-terasort sorts what sort gen makes, and sort check agrees', async (stage) => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-example-'));
  try {
    const [from, to] = [join(folder, 'in'), join(folder, 'out')];
    await output(stage, ['sort', 'gen', '--records', '100K', from]);
    assert.match(
      await output(stage, ['run', '-n', '2', join(EXAMPLES, '18-terasort', 'sort.ts'), from, to]),
      /\[0\] sorted 100000 records, \d+ map tasks, 2 reduce tasks\n/,
    );
    assert.match(
      await output(stage, ['sort', 'check', to, from]),
      /100 k records in 2 files, sorted, .*the same records as the input\n/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});
