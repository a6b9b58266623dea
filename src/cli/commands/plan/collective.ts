/** `verbena plan collective`: the algorithms of a collective on one network, timed by formula and by simulation. */

import { ALGORITHMS } from '../../../collectives/registry.js';
import { type ComparedAlgorithm, compareAlgorithms } from '../../../plan/comparison.js';
import { drawCurves } from '../../../plan/report/curve-chart.js';
import { drawNetwork } from '../../../plan/report/network-drawing.js';
import type { Page } from '../../../plan/report/page.js';
import { formatBytes, formatSeconds } from '../../../plan/report/svg.js';
import type { FabricOptions } from '../../../plan/simulate/fabric.js';
import type { Network } from '../../../plan/topology/network.js';
import { parseTopology } from '../../../plan/topology/registry.js';
import type { Collective } from '../../../schedule/schedule.js';
import { defineCommand, UsageError } from '../../command.js';
import { boxTable } from '../../table.js';
import { grouped, rate } from './figures.js';
import { answer, htmlOption } from './report-file.js';

export const collectiveCommand = defineCommand({
  name: 'collective',
  pure: true,
  summary: 'algorithms of a collective on a network: time, bandwidth, rounds, fan-in, link load',
  positionals: [{ name: 'COLLECTIVE', summary: Object.keys(ALGORITHMS).join(', '), required: true }],
  options: {
    topology: { type: 'string', summary: 'network in short form: dragonfly:p=4,a=8,h=4', required: true },
    size: { type: 'size', summary: 'bytes of the vector', default: 2 ** 30, min: 1 },
    algorithms: { type: 'list', summary: 'names, or all', default: ['all'] },
    ranks: { type: 'integer', summary: 'ranks; default: all the endpoints hold', min: 2 },
    'ranks-per-endpoint': { type: 'integer', summary: 'accelerators that share an endpoint', default: 1, min: 1 },
    'link-gbps': { type: 'number', summary: 'Gb/s of a link, one way', default: 200, min: 0.001 },
    'hop-ns': { type: 'number', summary: 'nanoseconds per hop', default: 300, min: 0 },
    'overhead-ns': { type: 'number', summary: 'nanoseconds of software per message', default: 600, min: 0 },
    'triggered-ns': {
      type: 'number',
      summary: 'nanoseconds per message that the NIC starts by itself; default: nothing is chained',
      min: 0,
    },
    routing: {
      type: 'choice',
      summary: 'how messages find their way',
      choices: ['minimal', 'ecmp', 'valiant'],
      default: 'minimal',
    },
    switching: {
      type: 'choice',
      summary: 'what switches do',
      choices: ['cut-through', 'store-and-forward'],
      default: 'cut-through',
    },
    html: htmlOption,
  },
  examples: [
    {
      line: 'verbena plan collective allreduce --topology dragonfly:p=4,a=8,h=4 --size 1GiB',
      note: 'All algorithms on 1,056 endpoints.',
    },
    {
      line: 'verbena plan collective allreduce --topology leaf-spine:radix=16 --ranks-per-endpoint 8 --html allreduce.html',
      note: 'Eight accelerators a host; a page with link loads and curves.',
    },
  ],
  async run({ options, positionals, style, progress }) {
    const collective = positionals[0] as Collective;
    if (!Object.hasOwn(ALGORITHMS, collective))
      throw new UsageError(`there is no collective '${positionals[0]}'. Choose from: ${Object.keys(ALGORITHMS).join(', ')}`);
    const { topology, parameters } = parseTopology(options.topology);
    const network = topology.build(parameters);
    progress(`${network.name}: ${network.endpoints} endpoints, ${network.links} links`);
    const fabric: FabricOptions = {
      linkBytesPerSecond: (options['link-gbps'] * 1e9) / 8,
      hopLatencyNs: options['hop-ns'],
      overheadNs: options['overhead-ns'],
      triggeredNs: options['triggered-ns'] ?? options['overhead-ns'],
      routing: options.routing as FabricOptions['routing'],
      switching: options.switching as FabricOptions['switching'],
      ranksPerEndpoint: options['ranks-per-endpoint'],
    };
    const algorithms = options.algorithms.includes('all') ? ('all' as const) : options.algorithms;
    const result = compareAlgorithms({ collective, network, bytes: options.size, ranks: options.ranks, fabric, algorithms });
    const rows = result.rows.map(rowOf);
    const columns = head.map((title, i) => ({ title, align: i === 0 ? ('left' as const) : ('right' as const) }));
    const text = [
      boxTable(columns, rows, style),
      ...result.left.map(({ algorithm, reason }) => `${algorithm}: ${reason}`),
      `${grouped(result.ranks)} ranks on ${network.name}, ${formatBytes(options.size)}; bus is nccl-tests' bus bandwidth; formula is without contention`,
    ].join('\n');
    const document = {
      collective,
      topology: network.name,
      ranks: result.ranks,
      bytes: options.size,
      fabric,
      algorithms: result.rows.map(({ channelBytes, ...row }) => ({
        ...row,
        busiestLinkBytes: channelBytes.reduce((most, bytes) => Math.max(most, bytes), 0),
      })),
      left: result.left,
    };
    return answer(options.html, {
      document,
      text,
      page: () => pageOf(collective, network, options.size, result.ranks, result.rows, rows),
    });
  },
});

const head = ['algorithm', 'simulated', 'formula', 'bus', 'rounds', 'messages', 'peak bytes a round', 'fan-in', 'segments'];

function rowOf(row: ComparedAlgorithm): string[] {
  return [
    row.algorithm,
    formatSeconds(row.simulatedNs / 1e9),
    formatSeconds(row.formulaNs / 1e9),
    rate(row.busBytesPerSecond),
    grouped(row.rounds),
    grouped(row.messages),
    formatBytes(row.peakBytesPerRound),
    String(row.fanIn),
    row.segments === undefined ? '' : String(row.segments),
  ];
}

function pageOf(
  collective: string,
  network: Network,
  bytes: number,
  ranks: number,
  compared: readonly ComparedAlgorithm[],
  rows: readonly string[][],
): Page {
  const best = compared[0];
  const sizes = Array.from({ length: 25 }, (_, i) => 2 ** (6 + i));
  const curves = compared.slice(0, 10).map((row) => {
    const perByte = (row.simulatedNs - row.latencyNs) / bytes;
    return { name: row.algorithm, points: sizes.map((size): [number, number] => [size, (row.latencyNs + perByte * size) / 1e9]) };
  });
  return {
    title: `${collective} on ${network.name}`,
    subtitle: `${grouped(ranks)} ranks, ${formatBytes(bytes)}`,
    sections: [
      {
        heading: 'Which algorithm',
        cards: [
          { label: 'fastest', value: best.algorithm, note: best.description },
          {
            label: 'time',
            value: formatSeconds(best.simulatedNs / 1e9),
            note: `${formatSeconds(best.formulaNs / 1e9)} without contention`,
          },
          { label: 'bus bandwidth', value: rate(best.busBytesPerSecond) },
          {
            label: 'against the slowest',
            value: `${Number((compared[compared.length - 1].simulatedNs / best.simulatedNs).toPrecision(2))} ×`,
            note: compared[compared.length - 1].algorithm,
          },
        ],
        tables: [{ head, rows, highlight: 0 }],
      },
      {
        heading: 'Time over size',
        text: 'Simulated on this network, contention included. One simulation gives the line: latencies are paid once, the rest grows with the bytes.',
        figures: [
          {
            svg: drawCurves(curves, { label: 'time over size', xTitle: 'bytes of the vector', yTitle: 'time', markX: bytes }),
            caption: 'Lower is faster. The dotted line is the size asked for; segments are chosen for it.',
            wide: true,
          },
        ],
      },
      {
        heading: 'Where it runs',
        text: 'Load of every link over the whole collective, the busier direction, relative to the busiest link of that algorithm.',
        figures: [
          best,
          ...compared
            .slice(1)
            .filter((row) => ['ring', 'halving-doubling', 'recursive-doubling', 'double-binary-tree'].includes(row.algorithm)),
        ]
          .slice(0, 4)
          .map((row) => ({
            svg: drawNetwork(network, { channelBytes: row.channelBytes, size: 520 }),
            caption: `${row.algorithm}: ${formatSeconds(row.simulatedNs / 1e9)}`,
          })),
      },
    ],
  };
}
