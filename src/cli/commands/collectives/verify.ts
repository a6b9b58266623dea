/** `verbena verify`: proves schedules, for every number of ranks asked for, several roots, segment counts and invented hosts. */

import type { Algorithm } from '../../../collectives/index.js';
import { ALGORITHMS, findAlgorithm } from '../../../collectives/registry.js';
import { sampleShapes } from '../../../collectives/sample-shapes.js';
import { proveSchedule } from '../../../schedule/prover.js';
import { defineCommand, UsageError } from '../../command.js';
import { boxTable } from '../../table.js';
import { collectiveNamed } from './explain.js';

const MOST_RANKS = 128;

interface VerifiedAlgorithm {
  readonly collective: string;
  readonly algorithm: string;
  /** Schedules that were proved, one for each shape. */
  readonly schedules: number;
  readonly operations: number;
  readonly flaws: readonly string[];
}

/** 'N' or 'A..B'. */
function rangeOf(text: string): number[] {
  const match = /^(\d+)(?:\.\.(\d+))?$/.exec(text);
  const [first, last] = match === null ? [0, 0] : [Number(match[1]), Number(match[2] ?? match[1])];
  if (first < 1 || last < first || last > MOST_RANKS)
    throw new UsageError(`--ranks is a number or a range as 1..33, up to ${MOST_RANKS}; got '${text}'`);
  return Array.from({ length: last - first + 1 }, (_, k) => first + k);
}

function chosenBy(text: string | undefined): readonly Algorithm[] {
  if (text === undefined) return Object.values(ALGORITHMS).flat();
  const [word, name] = text.split(':');
  const collective = collectiveNamed(word);
  return name === undefined ? ALGORITHMS[collective] : [findAlgorithm(collective, name)];
}

function verify(algorithm: Algorithm, sizes: readonly number[]): VerifiedAlgorithm {
  const flaws: string[] = [];
  let [schedules, operations] = [0, 0];
  for (const size of sizes) {
    for (const shape of sampleShapes(algorithm, size)) {
      const proof = proveSchedule(algorithm.schedule(shape));
      schedules++;
      operations += proof.operations;
      flaws.push(...proof.flaws.map(({ text }) => `${size} ranks, root ${shape.root ?? 0}: ${text}`));
    }
  }
  return { collective: algorithm.collective, algorithm: algorithm.name, schedules, operations, flaws };
}

export const verifyCommand = defineCommand({
  name: 'verify',
  pure: true,
  summary: 'proves the schedules of collectives',
  description:
    'Symbolic execution shows that every rank ends with each contribution exactly once, that every send meets its receive, that nothing waits in a circle, and\n' +
    'that no memory is read before it is written or overwritten while in use, in any order in which the ranks may run.',
  positionals: [{ name: 'collective:algorithm', summary: 'as in allreduce:ring, or allreduce; default: all', required: false }],
  options: {
    ranks: { type: 'string', default: '1..12', value: 'N|A..B', summary: 'numbers of ranks' },
  },
  examples: [
    { line: 'verbena verify allreduce:ring --ranks 1..33', note: 'One algorithm.' },
    { line: 'verbena verify', note: 'All of them.' },
  ],
  async run({ options, positionals, style, progress }) {
    const sizes = rangeOf(options.ranks);
    const rows: VerifiedAlgorithm[] = [];
    for (const algorithm of chosenBy(positionals[0])) {
      progress(`${algorithm.collective}:${algorithm.name}`);
      rows.push(verify(algorithm, sizes));
    }
    const broken = rows.some(({ flaws }) => flaws.length > 0);
    const text = () =>
      [
        boxTable(
          [
            { title: 'algorithm' },
            { title: 'schedules', align: 'right' },
            { title: 'operations', align: 'right' },
            { title: '' },
          ],
          rows.map(({ collective, algorithm, schedules, operations, flaws }) => [
            `${collective}:${algorithm}`,
            String(schedules),
            String(operations),
            schedules === 0 ? 'not for these numbers of ranks' : flaws.length === 0 ? 'proved' : `${flaws.length} flaws`,
          ]),
          style,
        ),
        ...rows.flatMap(({ collective, algorithm, flaws }) =>
          flaws.slice(0, 3).map((flaw) => `${collective}:${algorithm}: ${flaw}`),
        ),
      ].join('\n');
    return { document: { ranks: sizes, rows }, text, exitCode: broken ? 1 : 0 };
  },
});
