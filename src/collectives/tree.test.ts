import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrival, binomialTree, fanTree, rounds, starTree, type Tree } from './tree.js';

const TREES: Record<string, (size: number) => Tree> = {
  star: starTree,
  binomial: binomialTree,
  'fan 2': (size) => fanTree(size, 2),
  'fan 4': (size) => fanTree(size, 4),
};

for (const [name, make] of Object.entries(TREES)) {
  test(`${name} tree: parents and children agree, and subtrees are runs of positions`, () => {
    for (let size = 1; size <= 40; size++) {
      const tree = make(size);
      const reached = (at: number): number[] => [at, ...tree.children(at).flatMap(reached)];
      assert.deepEqual(
        reached(0).sort((a, b) => a - b),
        Array.from({ length: size }, (_, k) => k),
      );
      let latest = 0;
      for (let at = 0; at < size; at++) {
        for (const child of tree.children(at)) assert.equal(tree.parent(child), at);
        assert.deepEqual(
          reached(at).sort((a, b) => a - b),
          Array.from({ length: tree.count(at) }, (_, k) => at + k),
        );
        latest = Math.max(latest, arrival(tree, at));
      }
      assert.equal(rounds(tree), latest);
    }
  });
}

test('a binomial tree reaches p positions in ceil(log2 p) rounds', () => {
  for (let size = 1; size <= 70; size++) assert.equal(rounds(binomialTree(size)), Math.ceil(Math.log2(size)));
});

test('the pictured trees are the ones built', () => {
  assert.deepEqual(binomialTree(8).children(0), [4, 2, 1]);
  assert.deepEqual(binomialTree(8).children(4), [6, 5]);
  assert.deepEqual(fanTree(8, 2).children(0), [1, 5]);
  assert.deepEqual(fanTree(8, 2).children(1), [2, 4]);
  assert.deepEqual(fanTree(8, 2).children(2), [3]);
});
