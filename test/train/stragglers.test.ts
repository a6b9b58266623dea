/** Slow ranks: who they are is told, what is late can be left out, and steps can be taken without waiting. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Sgd, softmaxCrossEntropy } from '../../src/nn/index.js';
import { runRanks } from '../collectives/ranks.js';
import { bars, smallModel } from './scenarios/digits.js';
import { difference, runTrials } from './trials.js';

describe('slow ranks', () => {
  for (const [what, accumulate, most] of [
    ['micro-batches', 4, 11],
    ['ranks altogether', 1, 0],
  ] as const) {
    it(`a deadline leaves out late ${what}, and the mean is over the samples that came`, async () => {
      const results = await runRanks(new URL('./scenarios/deadline.js', import.meta.url), 2, {
        env: () => ({ VERBENA_BLAS: 'own', VERBENA_ACCUMULATE: String(accumulate) }),
        watchdogMs: 120_000,
      });
      for (const { end, stderr } of results) assert.equal(end, 0, stderr);
      const said = results.map(({ said }) => said[0] as { counts: number[]; means: number[]; parameters: number[] });
      assert.deepEqual(said[0].parameters, said[1].parameters);
      assert.ok(Math.max(...said[1].counts) <= most, `the slow rank left too little out: ${said[1].counts}`);
      // The same steps by one model that sees exactly the samples that came.
      const model = smallModel('plain', 24);
      const optimizer = new Sgd(model);
      const data = bars(200, 11);
      for (let step = 0; step < 3; step++) {
        const own = said.map(({ counts }, rank) => Array.from({ length: counts[step] }, (_, i) => step * 24 + rank * 12 + i));
        const samples = Uint32Array.from(own.flat());
        assert.equal(said[0].means[step], samples.length);
        if (samples.length === 0) continue;
        const inputs = new Float32Array(24 * 64);
        const labels = new Int32Array(24);
        data.read(samples, inputs, labels);
        const gradient = new Float32Array(24 * 8);
        softmaxCrossEntropy(model.forward(inputs, samples.length, { training: true }), labels, samples.length, gradient);
        model.backward(gradient);
        optimizer.step(0.1);
      }
      assert.ok(difference(model.parameters, Float32Array.from(said[0].parameters)) < 1e-5);
    });
  }

  it('local SGD averages now and then, slow ranks are named and can get fewer samples, and buckets travel while backward computes', async () => {
    // Eight steps: the ninth has an odd number of samples.
    const [each, exact, seldom, slow, heavy, balanced] = await runTrials(2, [
      { localSteps: 1, steps: 8 },
      { steps: 8 },
      { localSteps: 6, model: 'rich', momentum: 0.9, rate: 0.02, epochs: 8 },
      { slowRank: 1, steps: 8 },
      { model: 'heavy', bucketBytes: 4096, steps: 6 },
      { balance: true, slowRank: 1, steps: 8 },
    ]);
    assert.ok(difference(each.parameters, exact.parameters) < 1e-5);
    assert.equal(each.bytes, exact.bytes);
    assert.ok(seldom.bytes < (each.bytes / 8) * 72 * 0.3, `${seldom.bytes}`);
    assert.ok(seldom.accuracy > 0.85, `${seldom.accuracy}`);
    assert.equal(slow.straggler.rank, 1);
    assert.equal(slow.straggler.cause, 'compute');
    assert.ok(balanced.shares[1] < balanced.shares[0], `the slow rank got ${balanced.shares} samples`);
    assert.ok(difference(balanced.parameters, exact.parameters) < 1e-5);
    assert.ok(heavy.buckets >= 3);
    assert.ok(heavy.hiddenMs > 0, 'no bucket travelled while backward computed');
  });
});
