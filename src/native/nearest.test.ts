import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { distance, nearest } from './nearest.js';

describe('The nearest word', () => {
  it('counts edits, a swap of neighbours as one', () => {
    assert.equal(distance('size', 'size'), 0);
    assert.equal(distance('sise', 'size'), 1);
    assert.equal(distance('szie', 'size'), 1);
    assert.equal(distance('', 'abc'), 3);
    assert.equal(distance('kitten', 'sitting'), 3);
  });

  it('finds what was probably meant, and nothing when nothing is near', () => {
    const words = ['doctor', 'top', 'bench', 'demo'];
    assert.equal(nearest('docotr', words), 'doctor');
    assert.equal(nearest('tpo', words), 'top');
    assert.equal(nearest('ben', words), 'bench');
    assert.equal(nearest('launch', words), undefined);
  });
});
