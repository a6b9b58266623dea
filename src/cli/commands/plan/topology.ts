/** `verbena plan topology`: one network, its figures, its price, its next size, its deadlocks. */

import { PlanRefusal } from '../../../plan/refusal.js';
import { drawNetwork } from '../../../plan/report/network-drawing.js';
import type { Page } from '../../../plan/report/page.js';
import { checkDeadlock, type DeadlockReport } from '../../../plan/routing/deadlock.js';
import { makeRouter } from '../../../plan/routing/router.js';
import { type GrowthCost, growthCost, type NetworkCost, networkCost } from '../../../plan/topology/price.js';
import { parseParameter, parseTopology, topologies, topologyNamed } from '../../../plan/topology/registry.js';
import type { Topology, TopologyFigures, TopologyParameters } from '../../../plan/topology/topology.js';
import { defineCommand, type OptionSpecs, UsageError } from '../../command.js';
import { boxTable } from '../../table.js';
import { bisectionText, blockingText, grouped, money, parameterText, rate } from './figures.js';
import { answer, htmlOption } from './report-file.js';

/** `perBox` is written `--per-box`. */
function optionName(parameter: string): string {
  return parameter.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** What a parameter means, per topology that has it: topologies with the same meaning stand together. */
function meaningsOf(parameter: string): string {
  const byMeaning = new Map<string, string[]>();
  for (const topology of topologies) {
    const rule = topology.parameters.find((candidate) => candidate.name === parameter);
    if (rule !== undefined) byMeaning.set(rule.meaning, [...(byMeaning.get(rule.meaning) ?? []), topology.name]);
  }
  return [...byMeaning].map(([meaning, names]) => `${meaning} (${names.join(', ')})`).join('; ');
}

const parameterOptions: OptionSpecs = Object.fromEntries(
  topologies.flatMap((topology) =>
    topology.parameters.map((rule) => [
      optionName(rule.name),
      { type: 'string', value: rule.list ? 'AxBx..' : 'N', summary: meaningsOf(rule.name) },
    ]),
  ),
);

export const topologyCommand = defineCommand({
  name: 'topology',
  pure: true,
  summary: 'figures of one network: size, diameter, bisection, price, next step, deadlock',
  description: `Topologies: ${topologies.map((topology) => topology.name).join(', ')}.\nParameters as options, or in short form: dragonfly:p=4,a=8,h=4.`,
  positionals: [{ name: 'TOPOLOGY', summary: 'name, or name:key=value,...', required: true }],
  options: {
    ...parameterOptions,
    planes: { type: 'integer', summary: 'equal copies of the network to buy', default: 1, min: 1 },
    'link-gbps': { type: 'number', summary: 'speed of a link in Gb/s, for the bisection bandwidth', default: 200, min: 0.001 },
    html: htmlOption,
  } as OptionSpecs & {
    planes: { type: 'integer'; summary: string; default: number };
    'link-gbps': { type: 'number'; summary: string; default: number };
    html: typeof htmlOption;
  },
  examples: [
    { line: 'verbena plan topology fat-tree --radix 48', note: '27,648 endpoints on 2,880 switches.' },
    {
      line: 'verbena plan topology dragonfly:p=4,a=8,h=4 --html dragonfly.html',
      note: 'The same as a page, with the network drawn.',
    },
  ],
  async run({ options, positionals, style }) {
    const { topology, parameters } = readQuestion(positionals[0], options as Readonly<Record<string, unknown>>);
    const figures = topology.figures(parameters);
    const linkBytes = (options['link-gbps'] * 1e9) / 8;
    const cost = priceOf(figures, options.planes);
    const growth = growthOf(topology, figures.parameters, options.planes);
    const deadlock = deadlockOf(topology, figures);
    const bisectionBandwidth = figures.bisection.links * linkBytes;
    const document = { ...figures, bisectionBytesPerSecond: bisectionBandwidth, cost, growth, deadlock };
    const rows = figureRows(figures, { bandwidth: bisectionBandwidth, cost, growth, deadlock });
    const text = boxTable([{ title: topology.name }, { title: parameterText(figures.parameters) }], rows, style);
    return answer(options.html, { document, text, page: () => pageOf(topology, figures, rows) });
  },
});

function readQuestion(
  text: string,
  options: Readonly<Record<string, unknown>>,
): { topology: Topology; parameters: TopologyParameters } {
  if (text === undefined) throw new UsageError(`which topology? There are ${topologies.map((t) => t.name).join(', ')}`);
  const { topology, parameters } = parseTopology(text);
  const given: Record<string, number | readonly number[]> = { ...parameters };
  for (const other of topologies) {
    for (const rule of other.parameters) {
      const value = options[optionName(rule.name)];
      if (typeof value === 'string') given[rule.name] = parseParameter(rule.name, value);
    }
  }
  return { topology, parameters: given };
}

function priceOf(figures: TopologyFigures, planes: number): NetworkCost | { refused: string } {
  try {
    return networkCost(figures, planes);
  } catch (error) {
    if (error instanceof PlanRefusal) return { refused: error.message };
    throw error;
  }
}

function growthOf(topology: Topology, parameters: TopologyParameters, planes: number): GrowthCost | { refused: string } {
  try {
    return growthCost(topology, parameters, planes);
  } catch (error) {
    if (error instanceof PlanRefusal) return { refused: error.message };
    throw error;
  }
}

/** Checked on this network where it is small, else on a small one of the same kind. */
function deadlockOf(topology: Topology, figures: TopologyFigures): DeadlockReport & { checkedOn: string } {
  const small = figures.switches <= 300 && figures.endpoints <= 4000;
  const parameters = small ? figures.parameters : topology.fit(48, 16);
  const network = topology.build(parameters);
  return { ...checkDeadlock(network, makeRouter(network, 'minimal')), checkedOn: small ? 'this network' : network.name };
}

function figureRows(
  figures: TopologyFigures,
  more: {
    bandwidth: number;
    cost: NetworkCost | { refused: string };
    growth: GrowthCost | { refused: string };
    deadlock: DeadlockReport & { checkedOn: string };
  },
): string[][] {
  const { links, diameter } = figures;
  const cables = Object.entries(links.byCable).filter(([, count]) => count > 0);
  const { cost, growth, deadlock } = more;
  return [
    ['endpoints', grouped(figures.endpoints)],
    [
      'switches',
      figures.switchSizes.length === 0 ? `${grouped(figures.switches)}, inside the endpoints` : grouped(figures.switches),
    ],
    ['ports of a switch', grouped(figures.radix)],
    ['links', `${grouped(links.total)}: ${grouped(links.host)} to endpoints, ${grouped(links.fabric)} between switches`],
    [
      'cables',
      cables
        .map(([name, count]) => `${grouped(count)} ${name === 'board' ? 'on boards' : name === 'dac' ? 'copper' : 'optical'}`)
        .join(', '),
    ],
    ['diameter', `${diameter.switchHops} switch hops, ${diameter.cables} cables, ${diameter.switches} switches passed`],
    ['bisection', bisectionText(figures)],
    ['bisection bandwidth', `${rate(more.bandwidth)} one way`],
    ['kind', `${figures.kind}, ${figures.regular ? 'regular' : 'not regular'}, ${blockingText(figures)}`],
    [
      'price',
      'refused' in cost
        ? cost.refused
        : `${money(cost.money)}: ${money(cost.boxMoney)} for ${grouped(cost.boxes)} switch boxes, ${money(cost.cableMoney)} for cables; ${money(cost.moneyPerEndpoint)} an endpoint`,
    ],
    [
      'next step',
      'refused' in growth
        ? growth.refused
        : `${growth.description}: +${grouped(growth.addedEndpoints)} endpoints for ${money(growth.money)}, ${grouped(growth.movedLinks)} cables moved`,
    ],
    [
      'deadlock',
      `${deadlock.freeWithOneChannel ? 'free on one virtual channel' : `needs ${deadlock.virtualChannels} virtual channels (${deadlock.rule})`}, minimal routing, checked on ${deadlock.checkedOn}`,
    ],
  ];
}

function pageOf(topology: Topology, figures: TopologyFigures, rows: readonly string[][]): Page {
  const small = figures.endpoints <= 1200;
  const network = topology.build(small ? figures.parameters : topologyNamed(topology.name).fit(36, 12));
  return {
    title: `${topology.name}: ${grouped(figures.endpoints)} endpoints`,
    subtitle: `${topology.summary} (${parameterText(figures.parameters)})`,
    sections: [
      {
        heading: 'Figures',
        cards: [
          { label: 'endpoints', value: grouped(figures.endpoints) },
          { label: 'switches', value: grouped(figures.switches), note: `of ${figures.radix} ports` },
          { label: 'diameter', value: `${figures.diameter.cables} cables`, note: `${figures.diameter.switchHops} switch hops` },
          { label: 'bisection', value: grouped(figures.bisection.links), note: bisectionText(figures) },
        ],
        figures: [
          {
            svg: drawNetwork(network, { size: 640 }),
            caption: small
              ? network.name
              : `${network.name}: a small one of the same kind; the real one has ${grouped(figures.endpoints)} endpoints`,
            wide: true,
          },
        ],
        tables: [{ head: ['what', 'how much'], rows }],
      },
    ],
  };
}
