import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { makeStyle } from '../../style.js';
import { directoryOutput, prefixedOutput } from './output.js';

it('lines carry their rank in columns, stdout and stderr apart', () => {
  const [out, err]: string[][] = [[], []];
  const output = prefixedOutput(
    12,
    makeStyle(false),
    (line) => out.push(line),
    (line) => err.push(line),
  );
  output.line(3, 'stdout', 'hello');
  output.line(11, 'stderr', 'oh');
  assert.deepEqual([out, err], [['[ 3] hello'], ['[11] oh']]);
});

it('ranks have colours of their own where there are colours', () => {
  const lines: string[] = [];
  const output = prefixedOutput(
    2,
    makeStyle(true),
    (line) => lines.push(line),
    () => {},
  );
  output.line(0, 'stdout', 'x');
  output.line(1, 'stdout', 'x');
  assert.ok(lines[0].startsWith('\x1b[36m[0]'));
  assert.ok(lines[1].startsWith('\x1b[32m[1]'));
});

it('a directory gets one file for each rank with both streams', () => {
  const directory = mkdtempSync(join(tmpdir(), 'verbena-output-'));
  const output = directoryOutput(join(directory, 'deep', 'er'), 2, assert.fail);
  output.line(1, 'stdout', 'a');
  output.line(1, 'stderr', 'b');
  output.close();
  assert.deepEqual(readdirSync(join(directory, 'deep', 'er')), ['rank-0.log', 'rank-1.log']);
  assert.equal(readFileSync(join(directory, 'deep', 'er', 'rank-1.log'), 'utf8'), 'a\nb\n');
  rmSync(directory, { recursive: true });
});

it('a file that cannot be written is told of once, and the others go on', () => {
  const directory = mkdtempSync(join(tmpdir(), 'verbena-output-'));
  symlinkSync('/dev/full', join(directory, 'rank-0.log'));
  const told: string[] = [];
  const output = directoryOutput(directory, 2, (line) => told.push(line));
  for (const line of ['one', 'two']) for (const rank of [0, 1]) output.line(rank, 'stdout', line);
  output.close();
  assert.deepEqual(told, ['verbena: lines of rank 0 are lost from here on: cannot write: the disk is full (ENOSPC)']);
  assert.equal(readFileSync(join(directory, 'rank-1.log'), 'utf8'), 'one\ntwo\n');
  rmSync(directory, { recursive: true });
});
