import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeStyle } from './style.js';
import { boxTable, plainTable } from './table.js';

const HEAD = [{ title: 'who' }, { title: 'us', align: 'right' }] as const;

describe('Tables', () => {
  it('frame columns as wide as their content, and align them', () => {
    const rows = [
      ['verbena', '0.15'],
      ['ucx', '12'],
    ];
    assert.equal(
      boxTable(HEAD, rows, makeStyle(false)),
      [
        '┌─────────┬──────┐',
        '│ who     │   us │',
        '├─────────┼──────┤',
        '│ verbena │ 0.15 │',
        '│ ucx     │   12 │',
        '└─────────┴──────┘',
      ].join('\n'),
    );
  });

  it('keep their shape with colours', () => {
    const painted = boxTable(HEAD, [[makeStyle(true).red('abc'), '1']], makeStyle(false)).split('\n');
    const bare = boxTable(HEAD, [['abc', '1']], makeStyle(false)).split('\n');
    assert.equal(painted[0], bare[0]);
  });

  it('widen for a section line', () => {
    const lines = boxTable(HEAD, ['a line that is longer than the columns'], makeStyle(false)).split('\n');
    assert.equal(new Set(lines.map((line) => line.length)).size, 1);
  });

  it('come without a frame too, without trailing space', () => {
    const text = plainTable(
      [{ title: 'a' }, { title: 'b' }],
      [
        ['1', ''],
        ['222', '3'],
      ],
      makeStyle(false),
    );
    assert.equal(text, 'a    b\n1\n222  3');
  });
});
