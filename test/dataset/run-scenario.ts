/** Runs a scenario of actor.ts on so many ranks, in a folder of its own, and sees that it passed. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SessionOptions } from '../../src/dataset/index.js';
import type { Stage } from '../launch/job.js';

export const ACTOR = fileURLToPath(new URL('scenarios/actor.js', import.meta.url));

/** A hang is told from a busy machine by a wide margin. */
export const LIMIT_MS = 240_000;

export async function runScenario(
  stage: Stage,
  name: string,
  ranks: number,
  options: Omit<SessionOptions, 'shuffle'> & { shuffle?: string },
  args: readonly string[] = [],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-dataset-'));
  try {
    const words = ['run', '-n', String(ranks), '--keep-going', ACTOR, name, JSON.stringify(options), folder, ...args];
    const job = stage.verbena(words, {}, LIMIT_MS - 10_000);
    const { code, signal } = await job.ended;
    const [passed] = job.heard('passed');
    assert.ok(passed, `${name} did not pass: ended with ${code ?? signal}\n${job.stdout}${job.stderr}`);
    if (name !== 'kill') assert.equal(code, 0, job.stderr);
    console.log(`${name}: ${JSON.stringify(passed)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
