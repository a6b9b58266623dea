import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Board, RANK_STATE } from './board.js';

test('a board vouches for contexts of ranks that run, whatever else they are, and for nobody else; so it does in other threads', () => {
  const made = Board.make(12, 0);
  const { size, address } = made;
  for (const board of [made, Board.at({ size, address })]) {
    for (const peer of ['rank 1 (process 7)', 'rank 11 as parameter server 0 (process 7)'])
      assert.ok(board.vouchesFor(peer), peer);
    for (const peer of ['rank 12 (process 7)', 'job.js (process 7)', 'a rank 1 (process 7)'])
      assert.ok(!board.vouchesFor(peer), peer);
    for (const state of [RANK_STATE.lost, RANK_STATE.left]) {
      made.words[made.stateIndex(1)] = state;
      assert.ok(!board.vouchesFor('rank 1 (process 7)'));
      assert.ok(board.vouchesFor('rank 11 (process 7)'));
    }
    made.words[made.stateIndex(1)] = RANK_STATE.running;
  }
});
