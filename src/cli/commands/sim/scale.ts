/** `verbena sim scale`: how fast this machine simulates, and how large a fabric it can hold. */

import { playAllToAll } from '../../../verbs/providers/sim/all-to-all.js';
import { defineCommand, type Outcome } from '../../command.js';
import { formatCount, significant } from '../../size.js';

export const scale = defineCommand({
  name: 'scale',
  pure: true,
  summary: 'all-to-all of small messages between many simulated devices',
  description:
    'Every device sends 64 bytes to every other one, on virtual time, and each message is checked to arrive once. 1,024 devices are about a million messages.',
  options: {
    devices: { type: 'integer', default: 256, min: 2, max: 4096, summary: 'how many devices' },
    type: { type: 'choice', choices: ['UD', 'DC'], default: 'UD', summary: 'the transport: datagrams, or dynamic connections' },
  },
  examples: [{ line: 'verbena sim scale --devices 1024', note: 'A million messages; seconds, and a few hundred megabytes.' }],
  async run({ options: { devices, type } }): Promise<Outcome> {
    const start = performance.now();
    const cpu = process.cpuUsage();
    const result = playAllToAll(type as 'UD' | 'DC', devices);
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    const cpuSeconds = (user + system) / 1e6;
    const peakBytes = process.resourceUsage().maxRSS * 1024;
    const packetsPerSecond = Math.round(result.packets / seconds);
    const document = {
      ...result,
      seconds,
      cpuSeconds,
      packetsPerSecond,
      eventsPerSecond: Math.round(result.events / seconds),
      peakBytes,
    };
    const text = [
      `${formatCount(result.messages)} messages between ${devices} devices over ${type}, each once; trace ${result.traceHash}`,
      `${significant(seconds)} s (${significant(cpuSeconds)} s of a core), ${formatCount(packetsPerSecond)} packets/s, ${formatCount(document.eventsPerSecond)} events/s, ` +
        `${significant(peakBytes / 1e9)} GB at most; ${significant(result.virtualNs / 1e6)} ms of virtual time`,
    ].join('\n');
    return { document, text };
  },
});
