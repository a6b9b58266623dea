/** `verbena plan roofline`: computing, memory or wire. */

import { roofline } from '../../../plan/cost/roofline.js';
import { drawCurves } from '../../../plan/report/curve-chart.js';
import { formatSeconds } from '../../../plan/report/svg.js';
import { deviceNamed } from '../../../plan/train/cluster.js';
import { defineCommand } from '../../command.js';
import { grouped, rate } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const rooflineCommand = defineCommand({
  name: 'roofline',
  summary: 'whether computing, memory or the wire limits a piece of work',
  options: {
    device: { type: 'string', summary: 'v100, a100, a800, h100', default: 'a100' },
    flops: { type: 'number', summary: 'floating-point operations', default: 1e12, min: 1 },
    bytes: { type: 'number', summary: 'bytes through memory', default: 1e10, min: 1 },
    'wire-bytes': { type: 'number', summary: 'bytes over the wire', default: 0, min: 0 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan roofline --device a100 --flops 1e13 --bytes 2e10 --wire-bytes 1e9', note: 'Three roofs.' }],
  async run({ options, style }) {
    const device = deviceNamed(options.device);
    const r = roofline({ device, flops: options.flops, memoryBytes: options.bytes, wireBytes: options['wire-bytes'] });
    return say(
      {
        title: `Roofline on ${device.name}`,
        subtitle: `${r.intensity.toPrecision(3)} operations a byte; the ridge is at ${r.ridge.toPrecision(3)}`,
        head: ['roof', 'time', 'limit'],
        rows: [
          ['computing', formatSeconds(r.computeSeconds), `${grouped(device.flopsPerSecond / 1e12)} TFLOP/s`],
          ['memory', formatSeconds(r.memorySeconds), rate(device.memoryBytesPerSecond)],
          ['wire', formatSeconds(r.wireSeconds), rate(device.nicBytesPerSecond)],
          [
            `bound by ${r.bound}`,
            formatSeconds(r.seconds),
            `${Number((r.attainableFlops / 1e12).toPrecision(3))} TFLOP/s attainable`,
          ],
        ],
        document: r,
        figure: () => ({
          svg: drawCurves(
            [
              {
                name: device.name,
                points: Array.from({ length: 41 }, (_, i): [number, number] => [
                  2 ** (i / 3 - 2),
                  Math.min(device.flopsPerSecond, 2 ** (i / 3 - 2) * device.memoryBytesPerSecond),
                ]),
              },
            ],
            {
              label: 'roofline',
              xTitle: 'operations per byte',
              yTitle: 'operations per second',
              formatX: (v) => String(v),
              formatY: (v) => `${v / 1e12} TF`,
              xBase: 4,
              markX: r.intensity,
            },
          ),
          caption: 'The dotted line is this work.',
        }),
      },
      options.html,
      style,
    );
  },
});
