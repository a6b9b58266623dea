import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeRows, encodeRows } from './codec.js';

const BATCHES: Readonly<Record<string, readonly unknown[]>> = {
  'pairs of text and numbers': [
    ['a', 1],
    ['', Number.NaN],
    ['longer than the others', -0.5],
  ],
  'pairs with text beyond Latin-1': [
    ['日本', 1],
    ['naïve', 2],
    ['🙂', Number.POSITIVE_INFINITY],
  ],
  'text with a lone surrogate': ['\ud800', 'x'],
  text: ['one', 'two', ''],
  numbers: [1, -2.5, Number.NaN],
  'pairs of numbers': [
    [1, 2],
    [3, 4.5],
  ],
  'anything else': [{ a: [1, 'x', null] }, 'text', 7n, undefined, new Date(5), Uint8Array.of(1, 2, 3)],
  'pairs that differ': [
    ['a', 1],
    ['b', 'c'],
  ],
  nothing: [],
};

describe('rows as bytes', () => {
  for (const [name, rows] of Object.entries(BATCHES)) {
    it(`${name} come back as they were`, () => {
      assert.deepEqual([...decodeRows(encodeRows(rows))], [rows]);
    });
  }

  it('several frames follow one another, at any place of a buffer', () => {
    const frames = Object.values(BATCHES).map((rows) => encodeRows(rows));
    const block = Buffer.concat([Buffer.alloc(8), ...frames]).subarray(8);
    assert.deepEqual([...decodeRows(block)], Object.values(BATCHES));
  });

  it('what is read does not change when the bytes do', () => {
    const block = Buffer.from(encodeRows([{ bytes: Uint8Array.of(9, 9, 9, 9, 9, 9, 9, 9) }]));
    const [[row]] = [...decodeRows(block)] as [[{ bytes: Uint8Array }]];
    block.fill(0);
    assert.deepEqual(row.bytes, Uint8Array.of(9, 9, 9, 9, 9, 9, 9, 9));
  });

  it('bytes that are no frames are an error', () => {
    assert.throws(() => [...decodeRows(Buffer.alloc(16))], /no frame of rows at byte 0/);
  });
});
