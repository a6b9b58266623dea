/** `verbena plan latency`: where the microseconds of an RDMA operation go. */

import { latencyBudget } from '../../../plan/cost/latency-budget.js';
import { defineCommand } from '../../command.js';
import { grouped } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const latencyCommand = defineCommand({
  name: 'latency',
  summary: 'where the microseconds of an RDMA operation go',
  options: {
    op: { type: 'choice', summary: 'operation', choices: ['write', 'read', 'send'], default: 'write' },
    inline: { type: 'flag', summary: 'payload inside the work request' },
    'table-in-memory': { type: 'flag', summary: 'region table not cached in the NIC' },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan latency --op write --inline', note: 'A small WRITE saves a DMA.' }],
  async run({ options, style }) {
    const budget = latencyBudget({
      operation: options.op as 'write' | 'read' | 'send',
      inline: options.inline,
      tableCached: !options['table-in-memory'],
    });
    return say(
      {
        title: `Latency budget of a ${options.op.toUpperCase()}`,
        subtitle: 'From the call to the completion, one rack',
        head: ['step', 'from ns', 'to ns'],
        rows: [
          ...budget.steps.map((step) => [step.name, grouped(step.lowNs), grouped(step.highNs)]),
          ['together', grouped(budget.lowNs), grouped(budget.highNs)],
        ],
        document: budget,
      },
      options.html,
      style,
    );
  },
});
