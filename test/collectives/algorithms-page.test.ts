/** docs/algorithms.md is made from the algorithms themselves. VERBENA_UPDATE=1 writes it anew. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ALGORITHMS } from '../../src/collectives/index.js';
import { evenSplit, walkSchedule } from '../../src/schedule/index.js';

const PAGE = fileURLToPath(new URL('../../../docs/algorithms.md', import.meta.url));
const RANKS = 8;
/** Divisible by every chunk count that occurs, so that shares are exact. */
const ELEMENTS = 8 * 9 * 5 * 7 * 64;

function page(): string {
  const lines = [
    '# Algorithms',
    '',
    `Counted by walking each schedule for ${RANKS} ranks. Steps are rounds; n is the vector; "out" is the most that one rank sends or moves in peers' memory.`,
    'Each file of `src/collectives/` tells the idea, the formulas and the paper; `verbena draw allreduce:ring` draws any of them.',
  ];
  for (const [collective, algorithms] of Object.entries(ALGORITHMS)) {
    lines.push('', `## ${collective}`, '', '| algorithm | steps | messages | out | idea |', '|---|---|---|---|---|');
    for (const algorithm of algorithms) {
      const shape = { size: RANKS, bytes: ELEMENTS };
      if (algorithm.supports(shape) !== true) {
        lines.push(`| ${algorithm.name} | | | | ${algorithm.description} (${algorithm.supports(shape)}) |`);
        continue;
      }
      const schedule = algorithm.schedule(shape);
      const walk = walkSchedule(schedule, evenSplit(ELEMENTS, schedule.chunks));
      const out = ((walk.busiest.sent + walk.busiest.accessed) / ELEMENTS).toFixed(2);
      lines.push(`| ${algorithm.name} | ${walk.rounds} | ${walk.messages} | ${out} n | ${algorithm.description} |`);
    }
  }
  return `${lines.join('\n')}\n`;
}

test('the page of the algorithms shows what the algorithms are', () => {
  if (process.env['VERBENA_UPDATE'] === '1') writeFileSync(PAGE, page());
  assert.equal(readFileSync(PAGE, 'utf8'), page());
});
