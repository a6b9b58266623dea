import assert from 'node:assert/strict';
import { it } from 'node:test';
import { settingsOf } from './options.js';

it('a rank may hold its own bound, or its share of the bound of the job where that is less', () => {
  const MiB = 1 << 20;
  const { memoryBytes, diskBytes } = settingsOf(
    { memoryBytes: 64 * MiB, jobMemoryBytes: 128 * MiB, diskBytes: 10 * MiB, jobDiskBytes: 100 * MiB },
    4,
    2,
  );
  assert.deepEqual([memoryBytes, diskBytes], [32 * MiB, 10 * MiB]);
  assert.equal(settingsOf({ jobDiskBytes: 100 }, 4, 2).diskBytes, 25);
});

it('an option that is not there, or out of its range, is an error that says so', () => {
  assert.throws(
    () => settingsOf({ memoryBites: 1 } as never, 1, 1),
    /there is no option memoryBites: there are shuffle, memoryBytes/,
  );
  assert.throws(() => settingsOf({ memoryBytes: 1 }, 1, 1), /memoryBytes is a number from 16777216: got 1/);
  assert.throws(() => settingsOf({ shuffle: 'pigeon' as never }, 1, 1), /there is no shuffle pigeon/);
});
