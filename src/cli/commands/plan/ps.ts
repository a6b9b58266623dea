/** `verbena plan ps`: parameter servers: how many are enough. */

import { parameterServer } from '../../../plan/cost/parameter-server.js';
import { formatBytes, formatSeconds } from '../../../plan/report/svg.js';
import { defineCommand } from '../../command.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const psCommand = defineCommand({
  name: 'ps',
  summary: 'parameter servers: time by number of servers, against the ring',
  options: {
    workers: { type: 'integer', summary: 'workers', default: 16, min: 1 },
    size: { type: 'size', summary: 'bytes of the gradient', default: 10 ** 9, min: 1 },
    'link-gbps': { type: 'number', summary: 'Gb/s of a port, one way', default: 200, min: 0.001 },
    html: htmlOption,
  },
  examples: [
    { line: 'verbena plan ps --workers 16 --size 1GB', note: 'One server is 16 times too slow; 16 are as good as a ring.' },
  ],
  async run({ options, style }) {
    const counts = [...new Set([1, 2, 4, 8, 16, 32, 64, options.workers])]
      .filter((k) => k <= options.workers)
      .sort((a, b) => a - b);
    const base = { workers: options.workers, bytes: options.size, bytesPerSecond: (options['link-gbps'] * 1e9) / 8 };
    const answers = [
      ...counts.map((servers) => ({
        name: `${servers} server${servers === 1 ? '' : 's'}`,
        ...parameterServer({ ...base, servers }),
      })),
      {
        name: `${options.workers} on the workers' hosts`,
        ...parameterServer({ ...base, servers: options.workers, colocated: true }),
      },
    ];
    const rows = answers.map((a) => [
      a.name,
      formatSeconds(a.pushSeconds),
      formatSeconds(a.pushThenPullSeconds),
      formatSeconds(a.overlappedSeconds),
      a.bottleneck,
      formatBytes(a.serverBytes),
      String(a.fanIn),
    ]);
    return say(
      {
        title: 'Parameter servers',
        subtitle: `${options.workers} workers, ${formatBytes(options.size)}`,
        head: ['servers', 'push', 'push then pull', 'overlapped', 'busier side', 'bytes a server takes', 'fan-in'],
        rows: [...rows, ['ring all-reduce', '', formatSeconds(answers[0].ringSeconds), '', '', '', '1']],
        document: { ...base, answers },
      },
      options.html,
      style,
    );
  },
});
