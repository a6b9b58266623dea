/** The small models as commands: `plan ps`, `compression`, `latency`, `packets`, `roofline`, `amdahl`, `energy`. One question, one table each. */

import { compressionPayoff } from '../../../plan/cost/compression.js';
import { latencyBudget } from '../../../plan/cost/latency-budget.js';
import { packetBudget } from '../../../plan/cost/packet-budget.js';
import { parameterServer } from '../../../plan/cost/parameter-server.js';
import { pollingEnergy } from '../../../plan/cost/polling-energy.js';
import { roofline } from '../../../plan/cost/roofline.js';
import { speedup, workersAtEfficiency } from '../../../plan/cost/speedup.js';
import { drawCurves } from '../../../plan/report/curve-chart.js';
import { formatBytes, formatSeconds } from '../../../plan/report/svg.js';
import { deviceNamed } from '../../../plan/train/cluster.js';
import { defineCommand, type Outcome } from '../../command.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';
import { grouped, percent, rate } from './figures.js';
import { answer, htmlOption } from './report-file.js';

interface Said {
  readonly title: string;
  readonly subtitle: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly document: object;
  readonly note?: string;
  /** A drawing for the page. */
  readonly figure?: () => { readonly svg: string; readonly caption: string };
}

function say(said: Said, html: string | undefined, style: Style): Outcome {
  const table = boxTable(
    said.head.map((title, i) => ({ title, align: i === 0 ? 'left' : 'right' })),
    said.rows,
    style,
  );
  return answer(html, {
    document: said.document,
    text: said.note === undefined ? table : `${table}\n${said.note}`,
    page: () => ({
      title: said.title,
      subtitle: said.subtitle,
      sections: [
        {
          heading: said.title,
          text: said.note,
          tables: [{ head: said.head, rows: said.rows }],
          figures: said.figure === undefined ? undefined : [{ ...said.figure(), wide: true }],
        },
      ],
    }),
  });
}

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
    const answers = options.gbps.map((gbps) => ({
      gbps: Number(gbps),
      ...packetBudget({ bitsPerSecond: Number(gbps) * 1e9, packetBytes: options['packet-bytes'], framingBytes: options.framing }),
    }));
    return say(
      {
        title: 'Packet budget',
        subtitle: `Packets of ${options['packet-bytes']} B`,
        head: ['link', 'packets a second', 'ns each', 'descriptors', 'kernel cores', 'mapped-queue cores', 'RDMA cores'],
        rows: answers.map((a) => [
          `${grouped(a.gbps)} Gb/s`,
          `${Number((a.packetsPerSecond / 1e6).toPrecision(3))} M`,
          a.nsPerPacket.toFixed(1),
          rate(a.descriptorBytesPerSecond),
          a.cores.kernel.toFixed(1),
          a.cores.mappedQueues.toFixed(1),
          a.cores.rdma.toFixed(3),
        ]),
        document: { packetBytes: options['packet-bytes'], answers },
        note: 'Cores assume 1,000 ns a packet in the kernel, 80 ns with mapped queues, 200 ns a message of 1 MiB with RDMA.',
      },
      options.html,
      style,
    );
  },
});

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

export const energyCommand = defineCommand({
  name: 'energy',
  summary: 'the energy of polling against interrupts',
  options: {
    events: { type: 'list', summary: 'completions a second', default: ['100', '1000', '10000', '100000', '1000000'] },
    'socket-watts': { type: 'number', summary: 'watts of the socket', default: 105, min: 0 },
    cores: { type: 'integer', summary: 'cores of the socket', default: 24, min: 1 },
    'interrupt-us': { type: 'number', summary: 'microseconds of CPU an interrupt costs', default: 5, min: 0.001 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan energy', note: 'A polling core draws 4.4 W, the NIC 3.8 W.' }],
  async run({ options, style }) {
    const answers = options.events.map((events) => ({
      events: Number(events),
      ...pollingEnergy({
        eventsPerSecond: Number(events),
        socketWatts: options['socket-watts'],
        cores: options.cores,
        interruptSeconds: options['interrupt-us'] / 1e6,
      }),
    }));
    return say(
      {
        title: 'The energy of waiting',
        subtitle: `${options['socket-watts']} W over ${options.cores} cores`,
        head: ['completions a second', 'polling', 'interrupts', 'NIC', 'less energy'],
        rows: answers.map((a) => [
          grouped(a.events),
          `${a.pollingWatts.toFixed(1)} W`,
          `${a.interruptWatts.toFixed(2)} W`,
          `${a.nicWatts} W`,
          a.advice,
        ]),
        document: { answers },
        note: `A polling core takes ${answers[0].pollingKilowattHoursPerYear.toFixed(0)} kWh a year; interrupts cost as much from ${grouped(answers[0].breakEvenEventsPerSecond)} a second on.`,
      },
      options.html,
      style,
    );
  },
});
