/** Datasets on UCX: the rows that a rank keeps for others lie in memory of UCX, and in mapped files beyond its bound. */

import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { LIMIT_MS, runScenario } from '../dataset/run-scenario.js';
import { Stage } from '../launch/job.js';

const skip = !existsSync('/usr/include/ucp/api/ucp.h') && 'needs apt-get install libucx-dev';

process.env['VERBENA_ENGINE'] = 'ucx';

test('what does not fit in memory goes to disk, and peers read it there', { skip, timeout: LIMIT_MS }, async () => {
  const stage = new Stage();
  try {
    await runScenario(stage, 'memory', 2, { memoryBytes: 16 << 20, windowBytes: 2 << 20 });
    await stage.assertNothingLeft();
  } finally {
    await stage.abandon();
    stage.remove();
  }
});
