/** p ranks that train together end where one rank ends that does all of their work. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { difference, type Outcome, runTrials, type Trial } from './trials.js';

/** 203 samples in batches of 24: nine steps an epoch, the last of 11 samples. */
const TRIALS = {
  plain: { momentum: 0.9, rate: 0.02 },
  // Not Adam: the bias before a batch norm has no gradient but rounding, which Adam blows up to whole steps.
  rich: { model: 'rich', momentum: 0.9, rate: 0.02 },
  reproducible: { shards: 4, momentum: 0.9, rate: 0.02 },
  reproducibleRich: { model: 'rich', optimizer: 'adam', rate: 0.003, shards: 4 },
  accumulated: { accumulate: 3, momentum: 0.9, rate: 0.02 },
  buckets: { bucketBytes: 4, momentum: 0.9, rate: 0.02 },
  aborted: { abortAt: 5, momentum: 0.9, rate: 0.02 },
} satisfies Record<string, Trial>;
const NAMES = Object.keys(TRIALS) as (keyof typeof TRIALS)[];

describe('training on several ranks', () => {
  const outcomes = new Map<number, Record<keyof typeof TRIALS, Outcome>>();
  let folder: string;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'verbena-equal-'));
    for (const size of [1, 2, 4]) {
      const all = await runTrials(
        size,
        NAMES.map((name) => TRIALS[name]),
      );
      outcomes.set(size, Object.fromEntries(NAMES.map((name, i) => [name, all[i]])) as Record<keyof typeof TRIALS, Outcome>);
    }
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  const of = (size: number) => outcomes.get(size) as Record<keyof typeof TRIALS, Outcome>;

  it('has the same bits for 1, 2 and 4 ranks in reproducible mode, dropout and batch norm included', () => {
    for (const name of ['reproducible', 'reproducibleRich'] as const) {
      for (const size of [2, 4]) {
        assert.deepEqual(of(size)[name].parameters, of(1)[name].parameters, `${name}, ${size} ranks`);
        assert.deepEqual(of(size)[name].state, of(1)[name].state);
      }
    }
  });

  it('ends at the same parameters to rounding otherwise, uneven last batch included', () => {
    for (const size of [2, 4]) {
      for (const name of ['plain', 'rich'] as const) {
        const apart = difference(of(size)[name].parameters, of(1)[name].parameters);
        assert.ok(apart < 2e-4, `${name}, ${size} ranks: ${apart}`);
      }
      assert.equal(of(size).plain.samples, 6 * 203);
      assert.equal(of(size).plain.steps, 54);
    }
  });

  it('k micro-batches with one exchange equal a batch that is k times as large', () => {
    for (const size of [1, 2, 4]) {
      const { accumulated, plain } = of(size);
      assert.ok(difference(accumulated.parameters, plain.parameters) < 2e-4);
      assert.equal(accumulated.bytes, plain.bytes);
    }
  });

  it('moves the gradient in several buckets with the same result', () => {
    assert.ok(of(2).buckets.buckets > of(2).plain.buckets || of(2).plain.buckets > 1);
    for (const size of [2, 4]) assert.deepEqual(of(size).buckets.parameters, of(size).plain.parameters);
  });

  it('ends at all ranks by the signal of one, at the next report, and goes on as if nothing had been', () => {
    for (const size of [1, 2, 4]) {
      const { aborted, plain } = of(size);
      const error = size === 1 ? 'Error: enough' : `AbortError: rank ${size - 1} ended the training`;
      assert.deepEqual(aborted.aborted, { error, steps: 8 });
      assert.deepEqual(aborted.parameters, plain.parameters);
    }
  });

  it('learns, and evaluates every sample once whatever the number of ranks', () => {
    for (const size of [1, 2, 4]) {
      assert.equal(of(size).plain.counted, 77);
      assert.equal(of(size).plain.accuracy, of(1).plain.accuracy);
      assert.ok(of(size).plain.accuracy > 0.9, `${of(size).plain.accuracy}`);
    }
  });
});
