/** The lesson examples/07-hello-ranks prints what its README shows; and the manifest fits the code. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readEnvironment } from '../../src/launch/index.js';
import { jobTest } from './job.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const example = join(root, 'examples', '07-hello-ranks');

const script = join(example, 'hello.ts');

jobTest('the example prints what its README shows', async (stage) => {
  const job = stage.verbena(['run', '-n', '4', script]);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  const shown = readFileSync(join(example, 'README.md'), 'utf8').split('```')[3].trim();
  assert.equal(job.stdout.trim().split('\n').sort().join('\n'), shown);
  assert.equal(job.stderr, '');
});

jobTest('the example runs on virtual hosts and alone', async (stage) => {
  const hosts = stage.verbena(['run', '--virtual-hosts', '2x2', script]);
  assert.deepEqual(await hosts.ended, { code: 0, signal: null }, hosts.stderr);
  assert.match(hosts.stdout, /\[3\] rank 3 of 4 \(1 of 2 on host 1\) heard from rank 2; 4 ranks counted/);
  const alone = stage.verbena(['exec', script]);
  assert.deepEqual(await alone.ended, { code: 0, signal: null }, alone.stderr);
  assert.equal(alone.stdout, 'rank 0 of 1 (0 of 1 on host 0) heard from rank 0; 1 ranks counted\n');
});

test('the Kubernetes manifest gives a rank what it reads', () => {
  const text = readFileSync(join(root, 'deploy', 'kubernetes', 'job.yaml'), 'utf8');
  const value = (name: string) => new RegExp(`name: ${name}\\n\\s+value: "?([^"\\n]+)"?`).exec(text)?.[1];
  const completions = /completions: (\d+)/.exec(text)?.[1];
  assert.equal(value('VERBENA_SIZE'), completions);
  assert.equal(/parallelism: (\d+)/.exec(text)?.[1], completions);
  const at = readEnvironment({
    JOB_COMPLETION_INDEX: '3',
    VERBENA_SIZE: value('VERBENA_SIZE'),
    VERBENA_STORE: value('VERBENA_STORE'),
    VERBENA_SECRET: 'from the Secret object',
  });
  const job = /kind: Job\nmetadata:\n {2}name: (\S+)/.exec(text)?.[1];
  const service = /kind: Service\nmetadata:\n {2}name: (\S+)/.exec(text)?.[1];
  assert.equal(at.launcher, 'kubernetes');
  assert.equal(at.rank, 3);
  assert.deepEqual(at.store, { host: `${job}-0.${service}`, port: Number(/port: (\d+)/.exec(text)?.[1]) });
  assert.equal(/subdomain: (\S+)/.exec(text)?.[1], service);
});
