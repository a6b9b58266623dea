/** Datasets on several ranks, with both shuffles, as a user starts them. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { jobTest as launchTest, type Stage, VERBENA } from '../launch/job.js';
import { chooseSeed } from '../processes/harness.js';
import { ACTOR, LIMIT_MS, runScenario } from './run-scenario.js';

const jobTest = (name: string, body: (stage: Stage) => Promise<void>) => launchTest(name, body, LIMIT_MS);

for (const shuffle of ['rdma', 'sort-tcp']) {
  jobTest(`every operator on rows gives what plain JavaScript gives (${shuffle})`, (stage) =>
    runScenario(stage, 'api', 2, { shuffle }),
  );
}

jobTest('columns and records give what loops over the same arrays give', (stage) => runScenario(stage, 'columns', 2, {}));

jobTest('errors name function, record and place; failed attempts leave no trace; slow tasks are run elsewhere', (stage) =>
  runScenario(stage, 'failures', 3, { maxFailures: 3, speculationMs: 300 }),
);

jobTest('what does not fit in memory goes to disk', (stage) =>
  runScenario(stage, 'memory', 2, { memoryBytes: 16 << 20, windowBytes: 2 << 20 }),
);

jobTest('a key with nine tenths of the data is streamed or cut, and memory stays within its bound', (stage) =>
  runScenario(stage, 'skew', 2, { memoryBytes: 16 << 20, windowBytes: 2 << 20 }),
);

jobTest('damaged blocks are computed again, and a full disk is named', (stage) =>
  runScenario(stage, 'damage', 2, { shuffle: 'damaging', memoryBytes: 16 << 20, diskBytes: 1 << 20 }),
);

const isRoot = process.getuid?.() === 0;
(isRoot ? jobTest : (name: string) => test(name, { skip: 'mounting a small file system needs root' }))(
  'a disk that is full is named, for spilled data and for output, and nothing is left on it',
  async (stage) => {
    const small = mkdtempSync(join(tmpdir(), 'verbena-full-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', small]);
    try {
      await runScenario(stage, 'disk', 2, { memoryBytes: 16 << 20, spillDirectory: small, maxFailures: 2 }, [small]);
      const { bfree, blocks } = statfsSync(small);
      assert.ok(blocks - bfree < 4, `${blocks - bfree} blocks of ${blocks} are still used`);
    } finally {
      execFileSync('umount', [small]);
      rmSync(small, { recursive: true });
    }
  },
);

jobTest('sort run says once what a rank failed by', async (stage) => {
  const spill = join(VERBENA, 'spill'); // no folder can be below a file
  const job = stage.verbena(['sort', 'run', dirname(VERBENA), join(stage.directory, 'out'), '--spill', spill]);
  assert.deepEqual(await job.ended, { code: 1, signal: null }, job.stderr);
  assert.equal(job.stderr.match(/the spill directory .* cannot be used: ENOTDIR/g)?.length, 1, job.stderr);
});

jobTest('when the driver is killed, the others end with an error that says so', async (stage) => {
  const job = stage.verbena(['run', '-n', '3', '--keep-going', ACTOR, 'driver-death', '{}'], {}, LIMIT_MS - 10_000);
  const told = await job.hear<{ rank: number; code: string; message: string; again: string }>('told', 2, LIMIT_MS - 20_000);
  for (const { code, message, again } of told) {
    assert.equal(code, 'DATASET_LOST', message);
    assert.match(message, /rank 0, which hands out the tasks, is (lost|gone)/);
    assert.equal(again, 'DATASET_LOST');
  }
  await job.ended;
});

jobTest('workers killed at random moments of a sort and a join change nothing', async (stage) => {
  const seed = chooseSeed();
  console.log(`VERBENA_SEED=${seed}`);
  await runScenario(stage, 'kill', 3, {}, [String(seed)]);
});

jobTest('cluster() makes a job of a plain script', async (stage) => {
  const script = fileURLToPath(new URL('scenarios/plain-script.js', import.meta.url));
  const job = stage.start(process.execPath, [script, 'an argument']);
  assert.deepEqual(await job.ended, { code: 0, signal: null }, job.stderr);
  assert.equal(job.stdout, '142858 an argument on 2 ranks\n');
});
