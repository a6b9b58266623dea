/** `verbena sim search`: plays many seeds and stops at the first run that is wrong. */

import { playScenario } from '../../../verbs/providers/sim/scenario.js';
import { defineCommand, type Outcome } from '../../command.js';
import { formatCount } from '../../size.js';
import { runText } from './run-text.js';

export const search = defineCommand({
  name: 'search',
  pure: true,
  summary: 'plays many seeds until one is wrong',
  description:
    'Random operations of several devices under random fault plans, one run per seed. A run that is wrong ends it, with its seed.',
  options: {
    from: { type: 'integer', default: 1, min: 0, max: 2 ** 31, summary: 'the first seed' },
    count: { type: 'integer', default: 1000, min: 1, max: 10_000_000, summary: 'how many seeds' },
  },
  examples: [{ line: 'verbena sim search --from 5000 --count 2000', note: 'Seeds 5000 to 6999.' }],
  async run({ options: { from, count }, progress }): Promise<Outcome> {
    const start = performance.now();
    let packets = 0;
    let events = 0;
    let forced = 0;
    for (let i = 0; i < count; i++) {
      const result = playScenario(from + i);
      packets += result.packets;
      events += result.events;
      if (result.failedSides > 0) forced++;
      if (result.fault !== undefined) {
        const lines = [...runText(result), `verbena sim replay ${result.seed} plays it again and makes its plan smaller`];
        return { document: { ...result, played: i + 1 }, text: lines.join('\n'), exitCode: 1 };
      }
      if (i > 0 && i % 1000 === 0) progress(`${i} of ${count} seeds`);
    }
    const seconds = (performance.now() - start) / 1000;
    const document = {
      from,
      played: count,
      packets,
      events,
      forced,
      eventsPerSecond: Math.round(events / seconds),
      fault: undefined,
    };
    const text =
      `${count} runs, all right; faults forced an error in ${forced}; ${formatCount(packets)} packets, ` +
      `${formatCount(events / seconds)} events/s`;
    return { document, text };
  },
});
