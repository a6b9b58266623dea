/** Two ranks that train through an adapter, each on its half of the points, end with the weights of one rank that has all of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DistributedOptions } from '../../src/adapters/flat-gradients.js';
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
      const run = (size: number, options: DistributedOptions = {}) =>
        runRanks(`../../adapters/scenarios/${name}`, size, {
          watchdogMs: 180_000,
          env: () => ({ ADAPTER: JSON.stringify(options) }),
        });
      const alone = weightsOf(await run(1));
      const together = weightsOf(await run(2));
      assert.ok(alone.length > 0 && alone.length === together.length);
      const apart = (turn: number, others: number[]) =>
        alone[turn].reduce((most, value, i) => Math.max(most, Math.abs(value - others[i])), 0);
      for (const [turn, weights] of together.entries()) {
        test.diagnostic(`${weights.length} weights, ${apart(turn, weights)} off`);
        assert.ok(apart(turn, weights) < 2e-4, `${apart(turn, weights)} off`);
      }
      const [inPieces] = weightsOf(await run(2, { accumulate: 2 }));
      assert.ok(apart(0, inPieces) < 2e-4, `two updates for each exchange: ${apart(0, inPieces)} off`);
      const [compressed] = weightsOf(await run(2, { compression: { kind: 'fp16' } }));
      const off = apart(0, compressed);
      assert.ok(off > 0 && off < 1e-2, `compressed: ${off} off`);
    });
  }
});
