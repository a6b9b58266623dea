import assert from 'node:assert/strict';
import { it } from 'node:test';
import { wordRange } from './word-range.js';

it('every word belongs to the split that it begins in, wherever the cuts are', () => {
  const text = Buffer.from('one  three five\nsevenletters x');
  const words = text.toString().split(/\s+/);
  for (let cut = 0; cut <= text.length; cut++) {
    for (let second = cut; second <= text.length; second++) {
      const found = [
        [0, cut],
        [cut, second],
        [second, text.length],
      ].flatMap(([from, to]) => {
        const begin = Math.max(0, from - 1);
        const range = wordRange(text.subarray(begin), from - begin, to - begin, true);
        assert.ok(range);
        const part = text.subarray(begin).toString('latin1', ...range);
        return part.split(/\s+/).filter((word) => word !== '');
      });
      assert.deepEqual(found, words, `cut at ${cut} and ${second}`);
    }
  }
});

it('a word that goes on behind what was read asks for more', () => {
  assert.equal(wordRange(Buffer.from('ab cdef'), 0, 5, false), undefined);
  assert.deepEqual(wordRange(Buffer.from('ab cdef g'), 0, 5, false), [0, 7]);
});
