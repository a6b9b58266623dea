/** `verbena host-agent`: what `verbena run --hosts` starts on another host by ssh. Not for people. */

import { serveRanks } from '../../../launch/launcher/host-agent.js';
import { defineCommand } from '../../command.js';

export const hostAgent = defineCommand({
  name: 'host-agent',
  summary: 'starts ranks for a launcher on another host',
  hidden: true,
  options: {},
  examples: [],
  async run() {
    // The launcher decides when to end: signals come through it.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.removeAllListeners(signal).on(signal, () => {});
    await serveRanks(process.stdin, process.stdout);
    return { document: {}, text: '' };
  },
});
