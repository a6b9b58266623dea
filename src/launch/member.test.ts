import assert from 'node:assert/strict';
import { it } from 'node:test';
import { rankList, ranksInWords } from './member.js';

it('ranks are written as people write them', () => {
  assert.equal(rankList([3, 0, 1, 2, 9, 7]), '0-3, 7, 9');
  assert.equal(rankList([4, 5]), '4, 5');
  assert.equal(ranksInWords([2]), 'rank 2');
  assert.equal(ranksInWords([2, 3, 4]), 'ranks 2-4');
  assert.equal(ranksInWords([]), 'nobody');
});
