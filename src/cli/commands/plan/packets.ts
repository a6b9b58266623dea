/** `verbena plan packets`: the packet budget of a link. */

import { packetBudget } from '../../../plan/cost/packet-budget.js';
import { numbersOf } from '../../arguments.js';
import { defineCommand } from '../../command.js';
import { grouped, rate } from './figures.js';
import { htmlOption } from './report-file.js';
import { say } from './said.js';

export const packetsCommand = defineCommand({
  name: 'packets',
  summary: 'packets a second, nanoseconds for each, and cores that software needs',
  options: {
    gbps: { type: 'list', summary: 'link speeds in Gb/s', default: ['10', '100', '400', '800', '1600'] },
    'packet-bytes': { type: 'integer', summary: 'bytes per packet', default: 1500, min: 1 },
    framing: { type: 'integer', summary: 'further bytes on the wire per packet', default: 0, min: 0 },
    html: htmlOption,
  },
  examples: [
    { line: 'verbena plan packets', note: '33 million a second at 400 Gb/s, 133 at 1.6 Tb/s.' },
    { line: 'verbena plan packets --gbps 10 --packet-bytes 64 --framing 20', note: 'The classic 14.88 million.' },
  ],
  async run({ options, style }) {
    const answers = numbersOf('gbps', options.gbps).map((gbps) => ({
      gbps,
      ...packetBudget({ bitsPerSecond: gbps * 1e9, packetBytes: options['packet-bytes'], framingBytes: options.framing }),
    }));
    return say(
      {
        title: 'Packet budget',
        subtitle: `Packets of ${options['packet-bytes']} B`,
        head: [
          'link',
          'packets a second',
          'ns each',
          'descriptors',
          'kernel cores',
          'for descriptors',
          'mapped-queue cores',
          'RDMA cores',
        ],
        rows: answers.map((a) => [
          `${grouped(a.gbps)} Gb/s`,
          `${Number((a.packetsPerSecond / 1e6).toPrecision(3))} M`,
          a.nsPerPacket.toFixed(1),
          rate(a.descriptorBytesPerSecond),
          a.cores.kernel.toFixed(1),
          a.cores.kernelDescriptors.toFixed(1),
          a.cores.mappedQueues.toFixed(1),
          a.cores.rdma.toFixed(3),
        ]),
        document: { packetBytes: options['packet-bytes'], answers },
        note:
          'Cores assume 1,000 ns a packet in the kernel, 80 ns with mapped queues, 200 ns a message of 1 MiB with RDMA. Descriptors are 200 B a packet\n' +
          "and 63 % of the kernel's time, as published for packets of 64 B.",
      },
      options.html,
      style,
    );
  },
});
