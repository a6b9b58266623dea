import assert from 'node:assert/strict';
import { it } from 'node:test';
import { countTasks, expandNodes } from './slurm-names.js';

it('lists of nodes are written out, with leading zeros and several ranges', () => {
  assert.deepEqual(expandNodes('n1'), ['n1']);
  assert.deepEqual(expandNodes('n[1-3,7],gpu01'), ['n1', 'n2', 'n3', 'n7', 'gpu01']);
  assert.deepEqual(expandNodes('node[08-11]-ib'), ['node08-ib', 'node09-ib', 'node10-ib', 'node11-ib']);
  assert.deepEqual(expandNodes('r[1-2]n[1-2]'), ['r1n1', 'r1n2', 'r2n1', 'r2n2']);
  assert.deepEqual(expandNodes(''), []);
});

it('tasks per node are written out', () => {
  assert.deepEqual(countTasks('2(x3),1'), [2, 2, 2, 1]);
  assert.deepEqual(countTasks('4'), [4]);
  assert.throws(() => countTasks('2(x'), /2\(x/);
});
