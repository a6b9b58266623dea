/** A disk that is really full: where things are spilled, and where output goes. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Session } from '../../../src/dataset/index.js';
import { errorOf, say } from './say.js';

export async function diskScenario(data: Session, [, small]: readonly string[]): Promise<void> {
  const n = 80_000;
  const rows = data
    .range(0, n, 1, 4)
    .map((i): [string, string] => [`${(i * 7919) % n}`, 'some text that takes room '.repeat(16)]);
  const spill = await errorOf(() => rows.sortByKey({ partitions: 2 }).count());
  assert.equal(spill.code, 'DATASET_DISK_FULL', spill.message);
  assert.ok(spill.message.includes(small), `the directory is named: ${spill.message}`);

  const out = join(small, 'out');
  const output = await errorOf(() => rows.saveAsText(out));
  assert.equal(output.code, 'DATASET_DISK_FULL', output.message);
  assert.ok(output.message.includes(out), `the file is named: ${output.message}`);
  await data.world.barrier();
  assert.deepEqual(readdirSync(out), [], 'no part of the output is left');
  assert.equal(await data.range(100).count(), 100, 'and the session goes on');
  say(data, 'passed', { spill: spill.message, output: output.message });
}
