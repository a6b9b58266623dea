import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatCount, formatSize, parseSize, significant } from './size.js';

describe('Sizes', () => {
  it('reads binary and decimal units', () => {
    const cases: [string, number | undefined][] = [
      ['8', 8],
      ['8B', 8],
      ['4K', 4096],
      ['4k', 4096],
      ['1.5M', 1.5 * 2 ** 20],
      ['1MiB', 2 ** 20],
      ['1MB', 1e6],
      ['2 GiB', 2 ** 31],
      ['1T', 2 ** 40],
      ['0', 0],
    ];
    for (const [text, bytes] of cases) assert.equal(parseSize(text), bytes, text);
  });

  it('refuses what is no whole number of bytes', () => {
    for (const text of ['', 'K', '1X', '-1', '0.3', '1e3', '1 2', '99999999T']) assert.equal(parseSize(text), undefined, text);
  });

  it('writes them so that they can be read', () => {
    assert.equal(formatSize(8), '8 B');
    assert.equal(formatSize(4096), '4 KiB');
    assert.equal(formatSize(1.5 * 2 ** 20), '1.5 MiB');
    assert.equal(formatSize(23.456 * 2 ** 30), '23.5 GiB');
    assert.equal(formatSize(25e6), '25 MB');
    assert.equal(formatSize(1e9), '1 GB');
    assert.equal(formatSize(125 * 2 ** 20), '125 MiB');
  });

  it('writes three digits, with or without a prefix', () => {
    assert.equal(significant(0.1468), '0.147');
    assert.equal(significant(12.34), '12.3');
    assert.equal(significant(1234), '1234');
    assert.equal(significant(0), '0');
    assert.equal(formatCount(12_345_678), '12.3 M');
    assert.equal(formatCount(999.7), '1.00 k');
    assert.equal(formatCount(450), '450');
  });
});
