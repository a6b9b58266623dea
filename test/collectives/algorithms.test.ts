import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runRanks } from './ranks.js';

for (const size of [1, 2, 3, 4, 7]) {
  test(`every algorithm gives the promised result and moves the walked bytes among ${size} processes`, async () => {
    const results = await runRanks('algorithms', size, { watchdogMs: 280_000 });
    for (const { rank, end, stderr, said } of results) {
      assert.equal(end, 0, `rank ${rank}: ${stderr}`);
      assert.ok((said[0]['cases'] as number) > 100);
    }
  });
}
