/** Two ranks that train through an adapter, each on its half of the points, end with the weights of one rank that has all of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type RankResult, runRanks } from '../collectives/ranks.js';

function weightsOf(results: readonly RankResult[]): number[][] {
  for (const { rank, end, stderr } of results) assert.equal(end, 0, `rank ${rank}: ${stderr}`);
  const [first, ...others] = results.map(({ said }) => said.map((line) => (line['weights'] as number[][]).flat()));
  for (const other of others) assert.deepEqual(other, first, 'ranks ended with different weights');
  return first;
}

describe('adapters', () => {
  for (const name of ['jax', 'tfjs']) {
    it(`${name}: two ranks are one with twice the batch`, async (test) => {
      const run = (size: number) => runRanks(`../../adapters/scenarios/${name}`, size, { watchdogMs: 180_000 });
      const alone = weightsOf(await run(1));
      const together = weightsOf(await run(2));
      assert.ok(alone.length > 0 && alone.length === together.length);
      for (const [turn, weights] of alone.entries()) {
        const off = weights.reduce((most, value, i) => Math.max(most, Math.abs(value - together[turn][i])), 0);
        test.diagnostic(`${weights.length} weights, ${off} off`);
        assert.ok(off < 2e-4, `${off} off`);
      }
    });
  }
});
