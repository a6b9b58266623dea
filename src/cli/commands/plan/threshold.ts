/** `verbena plan threshold`: from which size on rendezvous pays. */

import { linkKinds, linkNamed, rendezvousThreshold } from '../../../plan/cost/rendezvous-threshold.js';
import { drawCurves } from '../../../plan/report/curve-chart.js';
import { formatSeconds } from '../../../plan/report/svg.js';
import { defineCommand } from '../../command.js';
import { boxTable } from '../../table.js';
import { rate } from './figures.js';
import { answer, htmlOption } from './report-file.js';

function kilobytes(bytes: number): string {
  return bytes === Number.POSITIVE_INFINITY ? 'never' : `${Number((bytes / 1e3).toPrecision(3))} KB`;
}

export const thresholdCommand = defineCommand({
  name: 'threshold',
  summary: 'from which message size on rendezvous beats eager, per link',
  options: {
    link: { type: 'string', summary: `${linkKinds.map((link) => link.name).join(', ')}, or all`, default: 'all' },
    'copy-mibps': { type: 'number', summary: 'memcpy speed through bounce buffers, MiB/s', default: 5800, min: 1 },
    'overhead-ns': { type: 'number', summary: 'nanoseconds of work per message', default: 40, min: 0 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan threshold --link edr', note: 'About 29 KB with a registration cache, 686 KB without.' }],
  async run({ options, style }) {
    const links = options.link === 'all' ? linkKinds : [linkNamed(options.link)];
    const base = { copyBytesPerSecond: options['copy-mibps'] * 2 ** 20, overheadNs: options['overhead-ns'] };
    const answers = links.map((link) => ({
      link: link.name,
      bytesPerSecond: link.bytesPerSecond,
      latencyNs: link.latencyNs,
      cached: rendezvousThreshold(link, base),
      uncached: rendezvousThreshold(link, { ...base, registrationCache: false }),
      sendScheme: rendezvousThreshold(link, { ...base, registrationCache: false, scheme: 'am' }),
    }));
    const head = ['link', 'speed', 'latency', 'with registration cache', 'without', 'without, second send', 'why'];
    const rows = answers.map((a) => [
      a.link,
      rate(a.bytesPerSecond),
      formatSeconds(a.latencyNs / 1e9),
      kilobytes(a.cached.thresholdBytes),
      kilobytes(a.uncached.thresholdBytes),
      kilobytes(a.sendScheme.thresholdBytes),
      a.cached.reason,
    ]);
    return answer(options.html, {
      document: { links: answers },
      text: boxTable(
        head.map((title, i) => ({ title, align: i > 0 && i < 6 ? 'right' : 'left' })),
        rows,
        style,
      ),
      page: () => ({
        title: 'Eager or rendezvous',
        subtitle: 'Two straight lines over the message size; the threshold is where they cross',
        sections: [
          { heading: 'Thresholds', tables: [{ head, rows }] },
          {
            heading: `Cost over size: ${answers[0].link}`,
            figures: [
              {
                wide: true,
                caption: 'With a registration cache.',
                svg: drawCurves(
                  [
                    { name: 'eager', line: answers[0].cached.eager },
                    { name: 'rendezvous', line: answers[0].cached.rendezvous },
                  ].map(({ name, line }) => ({
                    name,
                    points: Array.from({ length: 30 }, (_, i): [number, number] => [
                      256 * 2 ** (i / 2),
                      (line.fixedNs + line.nsPerByte * 256 * 2 ** (i / 2)) / 1e9,
                    ]),
                  })),
                  { label: 'cost', xTitle: 'bytes', yTitle: 'time', markX: answers[0].cached.thresholdBytes },
                ),
              },
            ],
          },
        ],
      }),
    });
  },
});
