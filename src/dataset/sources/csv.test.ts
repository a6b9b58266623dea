import assert from 'node:assert/strict';
import { it } from 'node:test';
import { splitCsv } from './csv.js';

it('fields in quotes hold delimiters and doubled quotes', () => {
  assert.deepEqual(splitCsv('a,b,', ','), ['a', 'b', '']);
  assert.deepEqual(splitCsv('"a,b","say ""x""",c', ','), ['a,b', 'say "x"', 'c']);
  assert.deepEqual(splitCsv('"";b', ';'), ['', 'b']);
  assert.throws(() => splitCsv('a,"open', ','), /does not end/);
});
