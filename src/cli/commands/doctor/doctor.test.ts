import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeStyle } from '../../style.js';
import { doctorText } from './doctor.js';
import type { Finding } from './finding.js';

const FINDINGS: readonly Finding[] = [
  { area: 'Machine', what: 'processors', level: 'ok', found: '2 usable' },
  { area: 'Memory', what: 'locked memory', level: 'note', found: '8 MiB', advice: 'ulimit -l unlimited' },
  { area: 'Memory', what: 'copies', level: 'problem', found: 'administrators only', advice: 'sysctl something' },
];

describe('The page of the doctor', () => {
  it('groups by area, marks each finding, puts advice below it, and counts', () => {
    assert.equal(
      doctorText(FINDINGS, makeStyle(false), 100),
      [
        'Machine',
        '  ✓ processors     2 usable',
        '',
        'Memory',
        '  • locked memory  8 MiB',
        '                   ulimit -l unlimited',
        '  ✗ copies         administrators only',
        '                   sysctl something',
        '',
        '1 problem, 1 notes, 1 fine.',
      ].join('\n'),
    );
  });

  it('keeps within the width', () => {
    const long = { ...FINDINGS[0], found: 'word '.repeat(60).trim(), advice: 'advice '.repeat(40).trim() };
    for (const line of doctorText([long], makeStyle(false), 80).split('\n')) assert.ok(line.length <= 80, line);
  });
});
