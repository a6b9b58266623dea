/** `verbena train mnist` and the lessons: real data, several processes, one of them killed. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findMnist } from '../../src/nn/index.js';
import { decodeSafetensors } from '../../src/train/index.js';
import { Stage, until } from '../launch/job.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const skip = findMnist() === undefined ? 'MNIST is not installed' : false;

function verbena(...words: string[]): { stdout: string; stderr: string; status: number | null } {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const options = { cwd: root, env, encoding: 'utf8' as const, timeout: 150_000, killSignal: 'SIGKILL' as const };
  return spawnSync(process.execPath, [join(root, 'bin', 'verbena.js'), ...words], options);
}

describe('training from the command line', { skip }, () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'verbena-command-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('trains on MNIST, loses a rank, lets another one in, and leaves report, trace and weights', () => {
    const words = ['train', 'mnist', '--model', 'mlp', '--ranks', '2', '--epochs', '1', '--kill-one-at', '60', '--skip-scaling'];
    const { stdout, stderr, status } = verbena(...words, '--output', folder);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /step \d+: lost a rank; 1 go on/);
    const [, percent] = /\ntest accuracy (\d+\.\d\d) %\n$/.exec(stdout) ?? [];
    assert.ok(Number(percent) > 95, stdout);
    assert.match(stdout, /read \d, is \d/);
    const report = JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) as {
      accuracy: number;
      steps: number;
      members: { what: string }[];
    };
    assert.equal((100 * report.accuracy).toFixed(2), percent);
    assert.equal(report.steps, 469);
    assert.equal(report.members[0].what, 'lost');
    const { traceEvents } = JSON.parse(readFileSync(join(folder, 'trace.json'), 'utf8')) as { traceEvents: { name: string }[] };
    assert.ok(traceEvents.some(({ name }) => name === 'recover'));
    assert.ok(traceEvents.filter(({ name }) => name === 'backward').length >= 469);
    const { tensors } = decodeSafetensors(readFileSync(join(folder, 'weights.safetensors')));
    assert.deepEqual(tensors.get('1.linear.weight')?.data.length, 784 * 512);
    assert.ok(!existsSync(join(folder, 'spans-0.json')));
  });

  it('killed with SIGKILL while a newcomer trains with its ranks, leaves no process and no file behind', {
    timeout: 150_000,
  }, async () => {
    const stage = new Stage();
    try {
      const words = [
        'train',
        'mnist',
        '--model',
        'mlp',
        '--ranks',
        '2',
        '--epochs',
        '1000',
        '--kill-one-at',
        '30',
        '--skip-scaling',
      ];
      const run = stage.verbena([...words, '--output', join(folder, 'killed')], {}, 120_000);
      await until('a newcomer is let in', () => /a rank joined; 2 go on/.test(run.stdout + run.stderr), 100_000);
      run.process.kill('SIGKILL');
      await stage.assertNothingLeft();
    } finally {
      await stage.abandon();
      stage.remove();
    }
  });

  it('explains where the time of that run went', () => {
    const { stdout, stderr, status } = verbena('explain', 'step', '--report', join(folder, 'report.json'), '--json');
    assert.equal(status, 0, stderr);
    const { meanStep, model, plan } = JSON.parse(stdout) as { model: string; meanStep: Record<string, number>; plan: unknown[] };
    assert.equal(model, 'mlp');
    assert.ok(plan.length > 1);
    const { totalMs, readMs, forwardMs, backwardMs, waitMs, transferMs, optimizerMs } = meanStep;
    const parts = readMs + forwardMs + backwardMs + waitMs + transferMs + optimizerMs;
    assert.ok(Math.abs(parts - totalMs) < 0.02 * totalMs, `${parts} of ${totalMs}`);
  });

  it('measures an exchange of gradients', () => {
    const { stdout, stderr, status } = verbena('bench', 'train', '--metric', 'sync', '--size', '1M', '--rounds', '1', '--json');
    assert.equal(status, 0, stderr);
    const { results } = JSON.parse(stdout) as { results: { who: string; p50: number; unit: string }[] };
    assert.deepEqual([results[0].who, results[0].unit], ['verbena', 'ms']);
    assert.ok(results[0].p50 > 0);
  });

  it('refuses what does not go together', () => {
    const { status, stderr } = verbena('train', 'mnist', '--ranks', '3', '--shards', '4', '--output', folder);
    assert.equal(status, 2);
    assert.match(stderr, /--shards 4 is no multiple of the 3 ranks/);
  });

  it('the lesson 10-data-parallel prints what its README shows', () => {
    const { stdout, stderr, status } = verbena('run', '-n', '2', 'examples/10-data-parallel/train.ts');
    assert.equal(status, 0, stderr);
    assert.match(
      stdout,
      /^\[0\] step 100, 2 ranks: loss 0\.\d\d\n\[0\] step 200.*\n\[0\] step 300.*\n\[0\] 38400 images seen; .*\n\[0\] test accuracy 9\d\.\d %\n$/,
    );
  });

  it('the lesson 14-survive-a-kill goes on with two of three', () => {
    const { stdout, stderr, status } = verbena('run', '-n', '3', '--keep-going', 'examples/14-survive-a-kill/train.ts');
    assert.equal(status, 137, stderr);
    assert.match(stderr, /rank 1 .* was killed by SIGKILL/);
    assert.match(
      stdout,
      /^\[0\] step 120: a rank was lost, 2 go on after \d+ ms\n\[0\] 300 steps done, test accuracy 9\d\.\d %\n$/,
    );
  });
});
