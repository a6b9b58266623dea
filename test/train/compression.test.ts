/** Compressed sums among processes: the same bits everywhere, nothing lost for good, as few bytes as said, and models that learn with them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runRanks } from '../collectives/ranks.js';
import { gradientOf, SHAPES } from './scenarios/sums.js';

const FLOATS = SHAPES.reduce((sum, shape) => sum + shape.reduce((product, one) => product * one, 1), 0);

interface Summed {
  readonly kind: string;
  readonly sum: readonly number[];
  readonly digest: string;
  readonly bytesPerStep: number;
}

/**
 * Of the 40 turns' mean: how far from the true sum, in shares of its length. What is left over after n turns is as much as an encoding leaves out of what has
 * gathered, so coarse encodings are off by their delay: about one over (ratio x turns).
 */
const TOLERANCE: Record<string, number> = {
  fp16: 1e-5,
  bf16: 1e-4,
  int8: 1e-3,
  'one-bit': 0.6,
  'top-k:0.01': 0.4,
  'random-k:0.05': 0.65,
  'threshold:0.001': 0.1,
  'power-sgd:4': 0.3,
};

/** Bytes a step of two ranks, as a share of the gradient's. */
const SHARE: Record<string, number> = {
  fp16: 0.51,
  bf16: 0.51,
  int8: 0.26,
  'one-bit': 0.045,
  'top-k:0.01': 0.025,
  'random-k:0.05': 0.06,
  'threshold:0.001': 0.51,
  'power-sgd:4': 0.4,
};

describe('compressed sums', () => {
  for (const size of [2, 3]) {
    it(`${size} ranks`, async (test) => {
      const results = await runRanks('../../train/scenarios/compressed', size);
      for (const { rank, end, stderr } of results) assert.equal(end, 0, `rank ${rank}: ${stderr}`);
      const expected = new Float64Array(FLOATS);
      for (let r = 0; r < size; r++) for (const [i, value] of gradientOf(r, FLOATS).entries()) expected[i] += value;
      const length = Math.hypot(...expected);
      const said = results.map((one) => one.said.filter((line) => 'sum' in line) as unknown as Summed[]);
      assert.equal(said[0].length, Object.keys(TOLERANCE).length);
      for (const [turn, { kind, sum, digest, bytesPerStep }] of said[0].entries()) {
        for (const other of said) assert.equal(other[turn].digest, digest, `${kind}: ranks have different sums`);
        const error = Math.hypot(...sum.map((value, i) => value - expected[i])) / length;
        const share = bytesPerStep / (4 * FLOATS);
        test.diagnostic(`${kind}: ${error.toExponential(1)} off, ${(100 * share).toFixed(1)} % of the bytes`);
        assert.ok(error < TOLERANCE[kind], `${kind}: ${error} off`);
        // Among three, encodings of the sums travel too.
        assert.ok(share < SHARE[kind] * (size === 2 ? 1 : 2), `${kind}: ${share} of the bytes`);
      }
      const trained = results.map((one) => one.said.filter((line) => 'trained' in line));
      if (size === 2) assert.equal(trained[0].length, 1 + Object.keys(TOLERANCE).length);
      const plain = trained[0][0]?.['loss'] as number;
      for (const [turn, { trained: kind, loss, parameters }] of trained[0].entries()) {
        for (const other of trained) assert.equal(other[turn]['parameters'], parameters, `${kind}: ranks drifted apart`);
        test.diagnostic(`trained with ${kind}: loss ${(loss as number).toFixed(4)}`);
        assert.ok((loss as number) < plain + 0.1, `${kind}: loss ${loss}, without compression ${plain}`);
      }
    });
  }
});
