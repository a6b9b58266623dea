/** docs/algorithms.md and its pictures are made from the algorithms themselves. VERBENA_UPDATE_DOCS=1 writes them anew. */

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ALGORITHMS, type Algorithm, type Shape } from '../../src/collectives/index.js';
import { drawSchedule, evenSplit, regularTopology, walkSchedule } from '../../src/schedule/index.js';

const PAGE = fileURLToPath(new URL('../../../docs/algorithms.md', import.meta.url));
const PICTURES = fileURLToPath(new URL('../../../docs/images/algorithms/', import.meta.url));
const RANKS = 8;
const DRAWN_RANKS = 4;
/** Divisible by every chunk count that occurs, so that shares are exact. */
const ELEMENTS = 8 * 9 * 5 * 7 * 64;

/** The shape that is drawn: four ranks, on two hosts of two where the algorithm needs hosts. */
function drawnShape(algorithm: Algorithm): Shape {
  const root = algorithm.collective === 'send-receive' ? 1 : 0;
  const flat: Shape = { size: DRAWN_RANKS, bytes: 64, root, ...(algorithm.tunable === undefined ? {} : { segments: 2 }) };
  if (algorithm.supports(flat) === true) return flat;
  return { ...flat, topology: regularTopology({ hosts: 2, ranksPerHost: 2, nicsPerHost: 2 }) };
}

const pictureOf = ({ collective, name }: Algorithm) => `${collective}-${name}.svg`;

function pictures(): Map<string, string> {
  const drawn = new Map<string, string>();
  for (const algorithm of Object.values(ALGORITHMS).flat())
    drawn.set(pictureOf(algorithm), drawSchedule(algorithm.schedule(drawnShape(algorithm)), { subtitle: algorithm.description }));
  return drawn;
}

function page(): string {
  const lines = [
    '# Algorithms',
    '',
    `Counted by walking each schedule for ${RANKS} ranks. Steps are rounds; n is the vector; "out" is the most that one rank sends or moves in peers' memory.`,
    'Each file of `src/collectives/` tells the idea, the formulas and the paper; `verbena draw allreduce:ring --ranks 6` draws any of them.',
    '',
    `The pictures show ${DRAWN_RANKS} ranks (two hosts of two where hosts matter): what every rank holds between the steps, and the messages.`,
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
    for (const algorithm of algorithms) {
      lines.push('', `![${collective}:${algorithm.name}](images/algorithms/${pictureOf(algorithm)})`);
    }
  }
  return `${lines.join('\n')}\n`;
}

test('the page of the algorithms shows what the algorithms are', () => {
  if (process.env['VERBENA_UPDATE_DOCS'] === '1') writeFileSync(PAGE, page());
  assert.equal(readFileSync(PAGE, 'utf8'), page());
});

test('its pictures are what verbena draw draws', () => {
  const drawn = pictures();
  if (process.env['VERBENA_UPDATE_DOCS'] === '1') {
    rmSync(PICTURES, { recursive: true, force: true });
    mkdirSync(PICTURES, { recursive: true });
    for (const [name, svg] of drawn) writeFileSync(join(PICTURES, name), svg);
  }
  assert.deepEqual(readdirSync(PICTURES).sort(), [...drawn.keys()].sort());
  for (const [name, svg] of drawn) assert.ok(readFileSync(join(PICTURES, name), 'utf8') === svg, name);
});
