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
      const run = async (size: number, turns: DistributedOptions[]) =>
        weightsOf(
          await runRanks(`../../adapters/scenarios/${name}`, size, {
            watchdogMs: 180_000,
            env: () => ({ ADAPTER: JSON.stringify(turns) }),
          }),
        );
      // By hand, and with a library that has models as a model too.
      const [alone, ...aloneModel] = await run(1, [{}]);
      const [together, inPieces, compressed, ...model] = await run(2, [{}, { accumulate: 2 }, { compression: { kind: 'fp16' } }]);
      assert.equal(model.length, aloneModel.length);
      assert.equal(model.length, name === 'tfjs' ? 1 : 0);
      const apart = (some: number[], others: number[]) => {
        assert.ok(some.length > 0 && some.length === others.length);
        return some.reduce((most, value, i) => Math.max(most, Math.abs(value - others[i])), 0);
      };
      for (const [own, others] of [[alone, together], ...aloneModel.map((one, i) => [one, model[i]])]) {
        test.diagnostic(`${others.length} weights, ${apart(own, others)} off`);
        assert.ok(apart(own, others) < 2e-4, `${apart(own, others)} off`);
      }
      assert.ok(apart(alone, inPieces) < 2e-4, `two updates for each exchange: ${apart(alone, inPieces)} off`);
      const off = apart(alone, compressed);
      assert.ok(off > 0 && off < 1e-2, `compressed: ${off} off`);
    });
  }
});
