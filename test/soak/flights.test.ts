/** Example 19 as its README says; three million flights take too long for every test run. */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jobTest } from '../launch/job.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const DATA = fileURLToPath(new URL('../data/', import.meta.resolve('vega-datasets')));

jobTest(
  '19-join-flights joins three million flights with their airports',
  async (stage) => {
    const script = join(ROOT, 'examples', '19-join-flights', 'flights.ts');
    const job = stage.verbena(['run', '-n', '2', script, DATA], {}, 170_000);
    const { code } = await job.ended;
    assert.equal(code, 0, job.stderr + job.stdout);
    assert.match(job.stdout, /^\[0\] CO 10\.6 min late, 74465 flights\n\[0\] AK 9\.6 min late, 19853 flights\n/m);
    assert.match(job.stdout, /\[0\] 38 states\n/);
  },
  180_000,
);
