/** `verbena draw COLLECTIVE:ALGORITHM`: the schedule as a picture. `verbena draw dag SCRIPT`: the plan of a dataset. */

import { writeFileSync } from 'node:fs';
import { requireSupport } from '../../../collectives/algorithm.js';
import { findAlgorithm } from '../../../collectives/registry.js';
import { drawSchedule } from '../../../schedule/draw.js';
import { defineCommand, UsageError } from '../../command.js';
import { drawDag } from '../dataset/draw-dag.js';
import { collectiveNamed } from './explain.js';

export const draw = defineCommand({
  name: 'draw',
  summary: 'draws the schedule of a collective, or the plan of a dataset, as an SVG',
  positionals: [
    { name: 'collective:algorithm', summary: 'as in allreduce:ring; or dag', required: true },
    { name: 'script', summary: 'behind dag: the script whose first action is drawn' },
    { name: 'arguments', summary: 'of the script', rest: true },
  ],
  options: {
    ranks: { type: 'integer', default: 4, min: 1, max: 40, summary: 'ranks' },
    root: { type: 'integer', default: 0, min: 0, summary: 'root rank, where there is one' },
    segments: { type: 'integer', min: 1, max: 64, summary: 'pieces of a pipelined form' },
    output: { type: 'string', short: 'o', value: 'FILE', summary: 'where the picture goes; default: collective-algorithm.svg' },
  },
  examples: [
    { line: 'verbena draw allreduce:ring --ranks 6 -o ring.svg', note: 'Ranks, steps, arrows, chunks.' },
    { line: 'verbena draw dag job.ts -o plan.svg', note: 'Stages and shuffles of the first action of a script.' },
  ],
  async run({ options, positionals }) {
    if (positionals[0] === 'dag') return drawDag(positionals[1], positionals.slice(2), options.output);
    const [word, name] = (positionals[0] ?? '').split(':');
    const collective = collectiveNamed(word);
    if (!name) throw new UsageError('name an algorithm too, as in allreduce:ring; `verbena explain allreduce` lists them');
    const algorithm = findAlgorithm(collective, name);
    const { ranks, root, segments } = options;
    const shape = { size: ranks, bytes: 4096 * ranks, root, ...(segments === undefined ? {} : { segments }) };
    requireSupport(algorithm, shape);
    const file = options.output ?? `${collective}-${name}.svg`;
    writeFileSync(file, drawSchedule(algorithm.schedule(shape), { subtitle: algorithm.description }));
    return {
      document: { file, collective, algorithm: name, ranks },
      text: `${collective}:${name} among ${ranks} is drawn in ${file}`,
    };
  },
});
