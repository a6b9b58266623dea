/** `verbena plan train`: every legal way to spread a model over a cluster, the best one, and why the others lost. */

import { drawBars } from '../../../plan/report/bar-chart.js';
import { drawNetwork } from '../../../plan/report/network-drawing.js';
import type { Page, Section } from '../../../plan/report/page.js';
import { formatSeconds } from '../../../plan/report/svg.js';
import { drawPipeline } from '../../../plan/report/timeline-chart.js';
import type { Network } from '../../../plan/topology/network.js';
import { parseTopology } from '../../../plan/topology/registry.js';
import { type Cluster, parseCluster } from '../../../plan/train/cluster.js';
import { type Model, parameters, parseModel } from '../../../plan/train/model.js';
import { pipelineNames } from '../../../plan/train/pipeline-cost.js';
import type { PlanChoice, PlanCost, TensorSplit } from '../../../plan/train/plan.js';
import { simulatePlanTraffic, type TrafficPart } from '../../../plan/train/plan-traffic.js';
import { type SearchResult, searchPlans } from '../../../plan/train/search.js';
import type { PipelineName } from '../../../schedule/pipeline.js';
import { defineCommand } from '../../command.js';
import { boxTable } from '../../table.js';
import { grouped, percent } from './figures.js';
import { answer, htmlOption } from './report-file.js';

export const trainCommand = defineCommand({
  name: 'train',
  pure: true,
  summary: 'training plans: memory, computing, communication, bubble, and the best plan',
  description: 'A model by name or as JSON; a cluster as dgx-a100:128 (the number counts devices) or as JSON.',
  options: {
    model: { type: 'string', summary: 'gpt2-1.5b, gpt3-6.7b, gpt3-13b, gpt3-175b, gpt-530b, or JSON', default: 'gpt3-175b' },
    cluster: { type: 'string', summary: 'dgx-v100:N, dgx-a100:N, dgx-a800:N, dgx-h100:N, or JSON', default: 'dgx-a100:1024' },
    batch: { type: 'integer', summary: 'sequences per step; default: that of the model', min: 1 },
    data: { type: 'integer', summary: 'fix the data-parallel degree', min: 1 },
    tensor: { type: 'integer', summary: 'fix the tensor-parallel degree', min: 1 },
    pipeline: { type: 'integer', summary: 'fix the number of stages', min: 1 },
    'micro-batch': { type: 'integer', summary: 'fix the sequences per micro-batch', min: 1 },
    schedules: { type: 'list', summary: 'pipeline schedules to try', choices: pipelineNames, default: pipelineNames },
    zero: { type: 'choice', summary: 'ZeRO stage', choices: ['0', '1', '2', '3'], default: '1' },
    split: { type: 'choice', summary: 'how tensors are split', choices: ['megatron', 'column'], default: 'megatron' },
    topology: { type: 'string', summary: 'also simulate the best plan on this network of hosts, e.g. leaf-spine:radix=32' },
    top: { type: 'integer', summary: 'plans to show', default: 12, min: 1 },
    html: htmlOption,
  },
  examples: [
    { line: 'verbena plan train --model gpt3-175b --cluster dgx-a100:1024', note: 'The best plan, and what the others lose by.' },
    {
      line: 'verbena plan train --model gpt3-13b --cluster dgx-h100:64 --tensor 4 --html plan.html',
      note: 'With the tensor degree given.',
    },
  ],
  async run({ options, style }) {
    const named = parseModel(options.model);
    const model: Model = options.batch === undefined ? named : { ...named, batch: options.batch };
    const cluster = parseCluster(options.cluster);
    const fixed: Partial<Record<keyof PlanChoice, unknown>> = { zero: Number(options.zero), split: options.split as TensorSplit };
    for (const [key, value] of [
      ['data', options.data],
      ['tensor', options.tensor],
      ['pipeline', options.pipeline],
      ['microBatch', options['micro-batch']],
    ] as const) {
      if (value !== undefined) fixed[key] = value;
    }
    const result = searchPlans(model, cluster, {
      schedules: options.schedules as PipelineName[],
      fixed: fixed as Partial<PlanChoice>,
    });
    const shown = result.ranked.slice(0, options.top);
    const rows = shown.map(({ cost, reason }) => rowOf(cost, reason));
    const columns = head.map((title, i) => ({
      title,
      align: i >= 4 && i < head.length - 1 && i !== 5 && i !== 6 ? ('right' as const) : ('left' as const),
    }));
    const traffic = options.topology === undefined ? undefined : trafficOf(options.topology, model, cluster, result.best);
    const text = [
      `${model.name}: ${grouped(parameters(model) / 1e9)} billion parameters, batch ${grouped(model.batch)} on ${cluster.name}: ${grouped(cluster.hosts * cluster.devicesPerHost)} x ${cluster.device.name}`,
      boxTable(columns, rows, style),
      `${grouped(result.considered)} plans considered, ${grouped(result.ranked.length)} shapes, ${grouped(result.ranked.filter(({ cost }) => cost.fits).length)} fit; computing at ${percent(cluster.computeEfficiency, 0)} of the peak, links at ${percent(cluster.linkEfficiency, 0)}`,
      ...(traffic === undefined
        ? []
        : [
            '',
            `The best plan on ${traffic.network.name}, all groups at once:`,
            boxTable(
              trafficHead.map((title, i) => ({ title, align: i === 0 ? ('left' as const) : ('right' as const) })),
              traffic.rows,
              style,
            ),
          ]),
    ].join('\n');
    const document = {
      model,
      cluster,
      best: result.best,
      considered: result.considered,
      plans: result.ranked,
      traffic: traffic?.parts.map(({ channelBytes: _, ...part }) => part),
    };
    return answer(options.html, { document, text, page: () => pageOf(model, cluster.name, result, rows, traffic) });
  },
});

const head = [
  'data',
  'tensor',
  'stages',
  'micro',
  'm',
  'schedule',
  'recompute',
  'step',
  'bubble',
  'memory',
  'of peak',
  'why not',
];

function rowOf(cost: PlanCost, reason: string): string[] {
  const { choice } = cost;
  return [
    String(choice.data),
    String(choice.tensor),
    String(choice.pipeline),
    String(choice.microBatch),
    String(cost.microBatches),
    choice.pipeline === 1 ? '-' : choice.schedule,
    choice.recompute,
    formatSeconds(cost.seconds.total),
    percent(cost.bubbleOverTotal),
    `${(cost.memory.total / 1e9).toFixed(0)} GB`,
    percent(cost.utilisation),
    reason === '' ? 'the best' : reason,
  ];
}

const parts = ['compute', 'recompute', 'tensor', 'boundary', 'bubble', 'data'] as const;

function pageOf(
  model: Model,
  cluster: string,
  result: SearchResult,
  rows: readonly string[][],
  traffic: Traffic | undefined,
): Page {
  const { best } = result;
  const fitting = result.ranked.filter(({ cost }) => cost.fits).slice(0, 10);
  return {
    title: `Training ${model.name} on ${cluster}`,
    subtitle: `${grouped(parameters(model) / 1e9)} billion parameters, ${grouped(model.batch)} sequences of ${grouped(model.sequence)} tokens a step`,
    sections: [
      {
        heading: 'The best plan',
        cards: [
          {
            label: 'data x tensor x pipeline',
            value: `${best.choice.data} × ${best.choice.tensor} × ${best.choice.pipeline}`,
            note: `micro-batches of ${best.choice.microBatch}, ${best.choice.schedule}, recompute ${best.choice.recompute}`,
          },
          {
            label: 'step',
            value: formatSeconds(best.seconds.total),
            note: `${Number(best.sequencesPerSecond.toPrecision(3))} sequences a second`,
          },
          { label: 'of the peak', value: percent(best.utilisation), note: 'model operations only' },
          {
            label: 'memory',
            value: `${(best.memory.total / 1e9).toFixed(0)} GB`,
            note: `${(best.memory.states / 1e9).toFixed(0)} states, ${(best.memory.activations / 1e9).toFixed(0)} activations, of ${(best.memory.limit / 1e9).toFixed(0)}`,
          },
        ],
      },
      {
        heading: 'What a step consists of',
        text: 'The ten fastest shapes. The longest part of the difference is the reason a plan lost.',
        figures: [
          {
            svg: drawBars(
              'parts of a step',
              ['computing', 'recompute', 'tensor', 'boundary', 'bubble', 'gradients'],
              fitting.map(({ cost }) => ({
                name: `${cost.choice.data} × ${cost.choice.tensor} × ${cost.choice.pipeline}, micro ${cost.choice.microBatch}`,
                values: parts.map((part) => cost.seconds[part]),
                note: formatSeconds(cost.seconds.total),
              })),
            ),
            caption: 'data × tensor × pipeline, seconds per step.',
            wide: true,
          },
        ],
      },
      ...(traffic === undefined ? [] : [trafficSection(traffic)]),
      pipelineSection(),
      { heading: 'All shapes', tables: [{ head, rows, highlight: 0 }] },
    ],
  };
}

/** The four schedules on one small pipeline: what their bubbles look like. */
function pipelineSection(): Section {
  const [stages, microbatches] = [4, 8];
  const units = 3 * (microbatches + stages - 1);
  return {
    heading: 'Pipeline schedules',
    text: `Four stages, eight micro-batches; forward and each half of backward take the same time. Blue is forward, green backward, amber the weight half of backward; paler blocks are the second part of an interleaved stage. The same scale for all four.`,
    figures: pipelineNames.map((name) => ({
      svg: drawPipeline(name, { stages, microbatches, parts: name === 'interleaved' ? 2 : 1 }, units),
      caption: pipelineWords[name],
      wide: true,
    })),
  };
}

const pipelineWords: Readonly<Record<PipelineName, string>> = {
  gpipe: 'All forward, then all backward: every activation is held.',
  '1f1b': 'The same bubble, but only as many activations as there are stages.',
  interleaved: 'Two parts of the model per stage: half the bubble, more activations, twice the traffic between stages.',
  'zb-h1': 'The weight half of backward fills the gaps: a third of the bubble, no more memory.',
};

interface Traffic {
  readonly network: Network;
  readonly parts: readonly TrafficPart[];
  readonly rows: readonly string[][];
}

const trafficHead = ['one exchange', 'assumed by the plan', 'simulated, all groups at once', 'ratio'];

const trafficWords: Readonly<Record<TrafficPart['name'], string>> = {
  tensor: 'tensor: all-reduce of a micro-batch',
  boundary: 'boundary: hand-over to the next stage',
  data: 'data: all-reduce of the gradient',
};

function trafficOf(text: string, model: Model, cluster: Cluster, best: PlanCost): Traffic {
  const { topology, parameters: sizes } = parseTopology(text);
  const network = topology.build(sizes);
  const parts = simulatePlanTraffic(model, cluster, best, network);
  return {
    network,
    parts,
    rows: parts.map((part) => [
      trafficWords[part.name],
      formatSeconds(part.assumedSeconds),
      formatSeconds(part.simulatedSeconds),
      `${(part.simulatedSeconds / part.assumedSeconds).toFixed(2)} x`,
    ]),
  };
}

function trafficSection(traffic: Traffic): Section {
  return {
    heading: `On ${traffic.network.name}`,
    text: 'Every kind of exchange of the best plan, simulated with all its groups at once. The cost of the plan assumes that every device has its share of the NICs and nobody is in the way.',
    tables: [{ head: trafficHead, rows: traffic.rows }],
    figures: traffic.parts
      .filter((part) => part.name !== 'tensor')
      .map((part) => ({
        svg: drawNetwork(traffic.network, { channelBytes: part.channelBytes, size: 520 }),
        caption: trafficWords[part.name],
      })),
  };
}
