import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readTuned, tunedPath, writeTuned } from './tuned-costs.js';

describe('tuned costs', () => {
  it('are kept by provider, and a file of another version or none at all counts as nothing measured', () => {
    const folder = mkdtempSync(join(tmpdir(), 'verbena-tune-'));
    const path = join(folder, 'deep', 'tune.json');
    try {
      assert.deepEqual(readTuned('shm', path), {});
      writeTuned('shm', { latencyNs: 123 }, path);
      writeTuned('roce', { latencyNs: 456 }, path);
      assert.deepEqual(readTuned('shm', path), { latencyNs: 123 });
      assert.deepEqual(readTuned('roce', path), { latencyNs: 456 });
      writeFileSync(path, '{ "version": 99 }');
      assert.deepEqual(readTuned('shm', path), {});
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('lie where the environment says, else in the cache folder of the user', () => {
    assert.equal(tunedPath({ VERBENA_TUNE_FILE: '/x/y.json' }), '/x/y.json');
    assert.equal(tunedPath({ XDG_CACHE_HOME: '/cache' }), '/cache/verbena/tune.json');
  });
});
