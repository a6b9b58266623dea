/** A worker is killed somewhere in a job; the result must be that of an undisturbed run. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Session } from '../../../src/dataset/index.js';
import { Random } from '../../processes/random.js';
import { say } from './say.js';

async function sortDigest(data: Session, folder: string, name: string): Promise<string> {
  const out = join(folder, name);
  await data
    .binaryRecords(join(folder, 'records'), { width: 100, key: 10, splitBytes: 262_100 })
    .sortByKey({ partitions: 16 })
    .saveAsBinary(out);
  const hash = createHash('sha256');
  for (const file of readdirSync(out).sort()) hash.update(file).update(readFileSync(join(out, file)));
  return hash.digest('hex');
}

async function joinDigest(data: Session): Promise<string> {
  const left = data.range(0, 40_000, 1, 12).map((i): [number, number] => [(i * 7919) % 10_007, i]);
  const right = data
    .range(0, 10_000, 1, 6)
    .map((i): [string, string] => [String(i), `v${i}`])
    .map(([k, v]): [number, string] => [Number(k), v]);
  const rows = await left
    .reduceByKey((a, b) => a + b)
    .join(right)
    .collect();
  return createHash('sha256').update(JSON.stringify(rows)).digest('hex');
}

/** Kills one worker after another, each at a random moment of a job. */
export async function killScenario(data: Session, [folder, seedText]: readonly string[]): Promise<void> {
  const random = new Random(Number(seedText));
  if (data.isDriver) {
    const bytes = new Uint8Array(40_000 * 100);
    for (let i = 0; i < bytes.length; i++) bytes[i] = (Math.imul(i + 1, 0x9e3779b1) >>> 11) & 0xff;
    writeFileSync(join(folder, 'records'), bytes);
  }
  await data.world.barrier();
  const runs = { sort: (name: string) => sortDigest(data, folder, name), join: () => joinDigest(data) };
  const undisturbed = async (kind: 'sort' | 'join') => {
    const started = performance.now();
    const digest = await runs[kind]('undisturbed');
    return { digest, tookMs: performance.now() - started };
  };
  const known = { sort: await undisturbed('sort'), join: await undisturbed('join') };
  const recomputed: number[] = [];
  for (let victim = data.size - 1; victim > 0; victim--) {
    const kind = victim % 2 === 0 ? 'sort' : 'join';
    const { digest: expected, tookMs } = known[kind];
    const after = (random.next() / 2 ** 32) * tookMs * 1.1;
    if (data.isDriver) setTimeout(() => process.kill(data.world.members[victim].pid, 'SIGKILL'), after);
    assert.equal(
      await runs[kind](`round-${victim}`),
      expected,
      `the ${kind} after rank ${victim} was killed ${after.toFixed(1)} ms into it`,
    );
    recomputed.push(data.lastReport?.stages.reduce((sum, stage) => sum + stage.attempts - stage.tasks, 0) ?? 0);
    while (data.rank === victim || data.world.liveness.stateOf(victim) === 'running')
      await new Promise((resolve) => setTimeout(resolve, 5));
  }
  say(data, 'passed', { sortMs: known.sort.tookMs, joinMs: known.join.tookMs, recomputed });
}
