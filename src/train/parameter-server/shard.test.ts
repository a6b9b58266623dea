import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Grant, type ServerMode, Shard } from './shard.js';
import { cutShards, rangesOf } from './shard-cut.js';

const RANGES = [{ name: 'w', shape: [2], from: 0, to: 2, decay: false }];

/** Parameters [0, 0], plain SGD: with rate 1 they become minus the sum of the applied gradients. */
function make(mode: ServerMode, workers: number, { staleness = 1, backups = 0 } = {}): Shard {
  return new Shard(new Float32Array(2), { mode, staleness, backups, workers, optimizer: { kind: 'sgd' }, ranges: RANGES });
}

/** One push and what a server does with it; the workers that are granted. */
function push(shard: Shard, worker: number, step: number, value: number, weight = 1): number[] {
  shard.push(worker, step, weight, 1, Float32Array.of(value, 2 * value));
  return settle(shard).map((grant) => grant.worker);
}

function settle(shard: Shard): Grant[] {
  shard.apply();
  return shard.grants();
}

describe('the rules of a shard', () => {
  it('sync applies a step when all have pushed it, as the mean over the samples', () => {
    const shard = make('sync', 3);
    assert.deepEqual(push(shard, 1, 0, 4, 2), []);
    assert.deepEqual(push(shard, 0, 0, 8, 1), []);
    assert.deepEqual([...shard.parameters], [0, 0]);
    assert.deepEqual(push(shard, 2, 0, 12, 1), [0, 1, 2]);
    assert.deepEqual([...shard.parameters], [-7, -14]);
    assert.deepEqual([...shard.clocks], [1, 1, 1]);
  });

  it('sync: a worker without samples adds nothing and is not waited for twice', () => {
    const shard = make('sync', 2);
    push(shard, 0, 0, 6);
    assert.deepEqual(push(shard, 1, 0, 100, 0), [0, 1]);
    assert.deepEqual([...shard.parameters], [-6, -12]);
    push(shard, 0, 1, 100, 0);
    assert.deepEqual(push(shard, 1, 1, 100, 0), [0, 1]);
    assert.deepEqual([...shard.parameters], [-6, -12]);
    assert.equal(shard.version, 1);
  });

  it('sync: nobody waits for a worker that died, and the mean is over those who are left', () => {
    const shard = make('sync', 3);
    push(shard, 0, 0, 2);
    push(shard, 2, 0, 4, 3);
    shard.drop(1);
    assert.deepEqual(
      settle(shard).map(({ worker, weight }) => [worker, weight]),
      [
        [0, 4],
        [2, 4],
      ],
    );
    assert.deepEqual([...shard.parameters], [-3.5, -7]);
  });

  it('sync with a backup: who is late is closed out, the mean is over those who came, and it goes on with the open round', () => {
    const shard = make('sync', 3, { backups: 1 });
    push(shard, 0, 0, 2);
    assert.equal(shard.hasQuorum, false);
    assert.deepEqual(push(shard, 1, 0, 4), []);
    assert.ok(shard.hasQuorum && !shard.hasWork, 'nobody is closed out at once: worker 2 knows of the round');
    shard.apply(true);
    assert.deepEqual(
      shard.grants().map(({ worker, next, weight, late }) => [worker, next, weight, late]),
      [
        [0, 1, 2, false],
        [1, 1, 2, false],
      ],
    );
    assert.deepEqual([...shard.parameters], [-3, -6]);
    push(shard, 0, 1, 1);
    assert.deepEqual(push(shard, 1, 1, 1), [0, 1], 'worker 2 has not heard of round 1: nobody waits for it');
    shard.push(2, 0, 1, 1, Float32Array.of(100, 100));
    assert.deepEqual(settle(shard), [{ worker: 2, step: 0, weight: 2, next: 2, late: true }]);
    assert.deepEqual([...shard.parameters], [-4, -8], 'what came late is not applied');
    push(shard, 0, 2, 1);
    push(shard, 2, 2, 4);
    assert.ok(shard.hasQuorum && !shard.hasWork, 'worker 2 counts again');
    assert.deepEqual(push(shard, 1, 2, 1), [0, 1, 2]);
    assert.deepEqual([...shard.parameters], [-6, -12]);
    assert.deepEqual([...shard.clocks], [3, 3, 3]);
  });

  it('sync with a backup: one that died is a backup the others can do without, and is needed no more', () => {
    const shard = make('sync', 3, { backups: 1 });
    shard.drop(2);
    push(shard, 0, 0, 2);
    assert.equal(shard.hasQuorum, false);
    assert.deepEqual(push(shard, 1, 0, 4), [0, 1]);
    assert.deepEqual([...shard.parameters], [-3, -6]);
  });

  it('async applies every push at once, one after the other', () => {
    const shard = make('async', 2);
    assert.deepEqual(push(shard, 0, 0, 1), [0]);
    assert.deepEqual(push(shard, 0, 1, 1), [0]);
    assert.deepEqual(push(shard, 1, 0, 5), [1]);
    assert.deepEqual([...shard.parameters], [-7, -14]);
    assert.equal(shard.version, 3);
  });

  for (const staleness of [0, 1, 3]) {
    it(`ssp holds back who is more than ${staleness} steps ahead, until the slowest comes closer or dies`, () => {
      const shard = make('ssp', 2, { staleness });
      let step = 0;
      for (; step < staleness; step++) assert.deepEqual(push(shard, 0, step, 1), [0], `step ${step}`);
      assert.deepEqual(push(shard, 0, step, 1), [], 'the push is applied, but not granted');
      assert.equal(shard.parameters[0], -(step + 1));
      assert.deepEqual(push(shard, 1, 0, 1).sort(), [0, 1]);
      assert.deepEqual(push(shard, 0, step + 1, 1), []);
      shard.drop(1);
      assert.deepEqual(
        settle(shard).map(({ worker }) => worker),
        [0],
      );
    });
  }

  it('a push that was applied before is granted and not applied again', () => {
    const shard = make('async', 1);
    push(shard, 0, 0, 1);
    assert.deepEqual(push(shard, 0, 0, 1), [0]);
    assert.deepEqual([...shard.parameters], [-1, -2]);
  });

  it('a step that was left out is refused', () => {
    assert.throws(() => push(make('async', 1), 0, 1, 1), RangeError);
  });
});

describe('cutting parameters into shards', () => {
  const ranges = [10, 30, 35, 100].map((to, i, ends) => ({ name: `t${i}`, shape: [], from: ends[i - 1] ?? 0, to, decay: true }));

  it('even parts cover everything once', () => {
    for (const shards of [1, 2, 3, 7, 100]) {
      const cuts = cutShards(100, shards, ranges);
      assert.equal(cuts[0].from, 0);
      assert.equal(cuts.at(-1)?.to, 100);
      for (let i = 1; i < shards; i++) assert.equal(cuts[i].from, cuts[i - 1].to);
      const sizes = cuts.map(({ from, to }) => to - from);
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1);
    }
  });

  it('whole tensors stay together', () => {
    for (const shards of [1, 2, 3, 4]) {
      const cuts = cutShards(100, shards, ranges, true);
      for (const { from, to } of cuts) {
        assert.ok(to > from);
        assert.ok(from === 0 || ranges.some((range) => range.to === from));
      }
      assert.equal(cuts.at(-1)?.to, 100);
    }
    assert.deepEqual(
      cutShards(100, 2, ranges, true).map(({ to }) => to),
      [35, 100],
    );
  });

  it('tensors are clipped to the shard and counted from its start', () => {
    assert.deepEqual(
      rangesOf({ index: 0, from: 20, to: 40 }, ranges).map(({ name, from, to }) => [name, from, to]),
      [
        ['t1', 0, 10],
        ['t2', 10, 15],
        ['t3', 15, 20],
      ],
    );
  });

  it('more shards than parameters are refused', () => {
    assert.throws(() => cutShards(3, 4, ranges), RangeError);
    assert.throws(() => cutShards(100, 5, ranges, true), RangeError);
  });
});
