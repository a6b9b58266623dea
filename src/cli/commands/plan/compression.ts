/** `verbena plan compression`: whether compressing gradients pays. */

import { compressionPayoff } from '../../../plan/cost/compression.js';
import { formatBytes, formatSeconds } from '../../../plan/report/svg.js';
import { defineCommand } from '../../command.js';
import { percent } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const compressionCommand = defineCommand({
  name: 'compression',
  summary: 'whether gradient compression pays: T_comp I_comp < T_orig I_orig',
  options: {
    size: { type: 'size', summary: 'bytes of the gradient', default: 10 ** 9, min: 1 },
    workers: { type: 'integer', summary: 'workers', default: 16, min: 1 },
    ratio: { type: 'number', summary: 'how many times smaller', default: 4, min: 1 },
    'codec-gbs': { type: 'number', summary: 'GB/s through encoder and decoder', default: 20, min: 0.001 },
    'compute-ms': { type: 'number', summary: 'milliseconds of computing a step', default: 100, min: 0 },
    'step-factor': { type: 'number', summary: 'how many times more steps are needed', default: 1, min: 1 },
    overlap: { type: 'number', summary: 'share of the exchange that hides behind computing', default: 0, min: 0, max: 1 },
    html: htmlOption,
  },
  examples: [
    { line: 'verbena plan compression --ratio 32 --step-factor 1.2', note: 'One-bit gradients that need 20 % more steps.' },
  ],
  async run({ options, style }) {
    const speeds = [1, 10, 25, 50, 100, 200, 400];
    const base = {
      bytes: options.size,
      workers: options.workers,
      ratio: options.ratio,
      codecBytesPerSecond: options['codec-gbs'] * 1e9,
      computeSeconds: options['compute-ms'] / 1e3,
      stepFactor: options['step-factor'],
      overlap: options.overlap,
    };
    const answers = speeds.map((gbps) => ({ gbps, ...compressionPayoff({ ...base, bytesPerSecond: (gbps * 1e9) / 8 }) }));
    const limit = answers[0].breakEvenBytesPerSecond;
    return say(
      {
        title: 'Does compression pay?',
        subtitle: `${formatBytes(options.size)}, ${options.workers} workers, ${options.ratio} times smaller, ${options['step-factor']} times the steps`,
        head: ['link', 'step as it is', 'step compressed', 'gain to the result', 'pays', 'most extra steps'],
        rows: answers.map((a) => [
          `${a.gbps} Gb/s`,
          formatSeconds(a.originalStepSeconds),
          formatSeconds(a.compressedStepSeconds),
          `${a.gain.toFixed(2)} ×`,
          a.pays ? 'yes' : 'no',
          percent(a.breakEvenStepFactor - 1, 0),
        ]),
        document: { ...base, answers },
        note:
          limit === 0
            ? 'It pays at no speed.'
            : limit === Number.POSITIVE_INFINITY
              ? 'It pays at any speed.'
              : `It pays on links below ${Number(((limit * 8) / 1e9).toPrecision(3))} Gb/s.`,
      },
      options.html,
      style,
    );
  },
});
