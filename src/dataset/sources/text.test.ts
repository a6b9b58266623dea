import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { Task, type TaskServices } from '../plan/task.js';
import { linesOf } from './text.js';

function taskOf(batchRows: number): Task {
  return new Task({ job: '1', stage: 0, partition: 0, attempt: 0, batchRows }, {} as TaskServices, new AbortController().signal);
}

async function lines(path: string, fileBytes: number, cuts: readonly number[]): Promise<string[]> {
  const out: string[] = [];
  for (let i = 1; i < cuts.length; i++) {
    for await (const batch of linesOf({ path, from: cuts[i - 1], to: cuts[i], fileBytes }, taskOf(3))) out.push(...batch);
  }
  return out;
}

it('every line belongs to one split, wherever the cuts are', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-text-'));
  try {
    for (const text of ['one\ntwo\n\nfoür\nfive', 'a\r\nb\r\n', '\n\n', 'x']) {
      const path = join(folder, 'text');
      writeFileSync(path, text);
      const size = Buffer.byteLength(text);
      const expected = text.replace(/\n$/, '').replaceAll('\r', '').split('\n');
      for (let a = 0; a <= size; a++)
        for (let b = a; b <= size; b++) assert.deepEqual(await lines(path, size, [0, a, b, size]), expected, `${a}, ${b}`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('lines longer than what is read at once are whole', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-text-'));
  try {
    const path = join(folder, 'text');
    const expected = Array.from({ length: 60 }, (_, i) => `${i}ö`.repeat(i % 7 === 0 ? 30_000 : 3000));
    writeFileSync(path, expected.join('\n'));
    const size = Buffer.byteLength(expected.join('\n'));
    const found = await lines(path, size, [0, 32_767, 32_769, 400_001, 400_001, 1_000_000, size]);
    assert.ok(found.length === expected.length && found.every((line, i) => line === expected[i]));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('a batch of one line names its byte', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-text-'));
  try {
    const path = join(folder, 'text');
    writeFileSync(path, 'ä\nbc\nd\n');
    const task = taskOf(1);
    const positions: string[] = [];
    for await (const [line] of linesOf({ path, from: 0, to: 8, fileBytes: 8 }, task))
      positions.push(`${line} ${task.position.split(', ')[1]}`);
    assert.deepEqual(positions, ['ä byte 0', 'bc byte 3', 'd byte 6']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
