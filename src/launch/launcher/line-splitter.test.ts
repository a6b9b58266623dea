import assert from 'node:assert/strict';
import { it } from 'node:test';
import { LineSplitter } from './line-splitter.js';

function split(...chunks: Buffer[]): string[] {
  const lines: string[] = [];
  const splitter = new LineSplitter((line) => lines.push(line));
  for (const chunk of chunks) splitter.push(chunk);
  splitter.end();
  return lines;
}

it('lines come whole, however the bytes arrive, and the last one without its newline', () => {
  assert.deepEqual(split(Buffer.from('a\nb'), Buffer.from('c\r\n\nd')), ['a', 'bc', '', 'd']);
  const umlaut = Buffer.from('größe\n');
  assert.deepEqual(split(umlaut.subarray(0, 3), umlaut.subarray(3)), ['größe']);
  assert.deepEqual(split(), []);
});

it('a line that never ends comes in pieces of 64 KiB', () => {
  const lines = split(Buffer.from('x'.repeat(150_000)));
  assert.deepEqual(
    lines.map((line) => line.length),
    [65_536, 65_536, 18_928],
  );
});
