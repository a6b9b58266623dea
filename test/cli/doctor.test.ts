import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verbena } from './verbena.js';

interface Finding {
  area: string;
  what: string;
  level: string;
  found: string;
}

describe('verbena doctor', () => {
  it('looks at everything and passes its own test', async () => {
    const { stdout } = await verbena(['doctor', '--json']);
    const { findings } = JSON.parse(stdout) as { findings: Finding[] };
    const names = findings.map(({ what }) => what);
    for (const what of [
      'processors',
      'CPU quota',
      'memory',
      '/dev/shm',
      'locked memory',
      'copies between processes',
      'huge pages',
      'UCX',
      'BLAS',
      'shm',
    ]) {
      assert.ok(names.includes(what), `${what} is missing`);
    }
    const tests = findings.filter(({ area }) => area === 'Self-test of shm');
    assert.ok(tests.length >= 9, `${tests.length} steps`);
    for (const { what, level, found } of tests) assert.equal(level, 'ok', `${what}: ${found}`);
  });
});
