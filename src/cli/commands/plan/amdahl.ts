/** `verbena plan amdahl`: what more workers bring. */

import { speedup, workersAtEfficiency } from '../../../plan/cost/speedup.js';
import { drawCurves } from '../../../plan/report/curve-chart.js';
import { defineCommand } from '../../command.js';
import { grouped, percent } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const amdahlCommand = defineCommand({
  name: 'amdahl',
  summary: 'speed-up by Amdahl and Gustafson from the serial fraction',
  options: {
    'serial-fraction': { type: 'number', summary: 'share of the work that cannot be divided', default: 0.05, min: 0, max: 1 },
    workers: { type: 'integer', summary: 'largest number of workers', default: 1024, min: 1 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan amdahl --serial-fraction 0.02 --workers 256', note: 'Never more than 50 times.' }],
  async run({ options, style }) {
    const s = options['serial-fraction'];
    const counts: number[] = [];
    for (let p = 1; p < options.workers; p *= 2) counts.push(p);
    counts.push(options.workers);
    const answers = counts.map((workers) => ({ workers, ...speedup(s, workers) }));
    const half = workersAtEfficiency(s, 0.5);
    return say(
      {
        title: 'Speed-up',
        subtitle: `Serial fraction ${percent(s)}`,
        head: ['workers', 'Amdahl', 'efficiency', 'Gustafson'],
        rows: answers.map((a) => [grouped(a.workers), a.amdahl.toFixed(2), percent(a.efficiency), a.gustafson.toFixed(2)]),
        document: { serialFraction: s, limit: answers[0].limit, workersAtHalfEfficiency: half, answers },
        note: `Amdahl's limit: ${grouped(answers[0].limit)}; half the efficiency is gone at ${grouped(half)} workers.`,
        figure: () => ({
          svg: drawCurves(
            (['amdahl', 'gustafson'] as const).map((law) => ({
              name: law,
              points: answers.map((a): [number, number] => [a.workers, a[law]]),
            })),
            { label: 'speed-up', xTitle: 'workers', yTitle: 'speed-up', formatX: String, formatY: String, xBase: 4 },
          ),
          caption: 'Amdahl keeps the problem, Gustafson grows it with the workers.',
        }),
      },
      options.html,
      style,
    );
  },
});
