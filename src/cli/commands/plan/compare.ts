/** `verbena plan compare`: every topology at the size asked for, side by side. */

import { PlanRefusal } from '../../../plan/refusal.js';
import { drawNetwork } from '../../../plan/report/network-drawing.js';
import { growthCost, networkCost } from '../../../plan/topology/price.js';
import { topologies } from '../../../plan/topology/registry.js';
import { defineCommand } from '../../command.js';
import { boxTable } from '../../table.js';
import { blockingText, grouped, money, parameterText, percent } from './figures.js';
import { answer, htmlOption } from './report-file.js';

const head = [
  'topology',
  'parameters',
  'endpoints',
  'switches',
  'radix',
  'cables',
  'diameter',
  'bisection',
  'blocking',
  'price',
  'per endpoint',
  'next step',
];

export const compareCommand = defineCommand({
  name: 'compare',
  pure: true,
  summary: 'all topologies for a number of endpoints, side by side',
  options: {
    endpoints: { type: 'integer', summary: 'endpoints needed', required: true, min: 2 },
    radix: { type: 'integer', summary: 'ports of a switch', default: 64, min: 3 },
    planes: { type: 'integer', summary: 'equal copies of each network', default: 1, min: 1 },
    html: htmlOption,
  },
  examples: [{ line: 'verbena plan compare --endpoints 1024 --radix 64', note: 'Which network, for how much.' }],
  async run({ options, style }) {
    const found: { document: object; row: string[]; topology: string; endpoints: number }[] = [];
    const refused: { topology: string; reason: string }[] = [];
    for (const topology of topologies) {
      try {
        const figures = topology.figures(topology.fit(options.endpoints, options.radix));
        const prices = { boxPorts: options.radix, box: (14_280 * options.radix) / 64, cable: { board: 0, dac: 272, aoc: 603 } };
        const cost = networkCost(figures, options.planes, prices);
        const growth = growthCost(topology, figures.parameters, options.planes, prices);
        found.push({
          topology: topology.name,
          endpoints: figures.endpoints,
          document: { ...figures, cost, growth },
          row: [
            topology.name,
            parameterText(figures.parameters),
            grouped(figures.endpoints),
            figures.switchSizes.length === 0 ? 'in nodes' : grouped(figures.switches),
            String(figures.radix),
            grouped(figures.links.byCable.dac + figures.links.byCable.aoc),
            `${figures.diameter.cables}`,
            `${figures.bisection.exactness === 'exact' ? '' : '~'}${grouped(figures.bisection.links)} (${percent(figures.bisection.relative, figures.bisection.relative < 0.01 ? 1 : 0)})`,
            blockingText(figures),
            money(cost.money),
            money(cost.moneyPerEndpoint),
            `+${grouped(growth.addedEndpoints)} for ${money(growth.money)}`,
          ],
        });
      } catch (error) {
        if (!(error instanceof PlanRefusal)) throw error;
        refused.push({ topology: topology.name, reason: error.message });
      }
    }
    const columns = head.map((title, i) => ({ title, align: i >= 2 && i !== 8 ? ('right' as const) : ('left' as const) }));
    const lines = [
      boxTable(
        columns,
        found.map(({ row }) => row),
        style,
      ),
      ...refused.map(({ topology, reason }) => `${topology}: ${reason}`),
      'diameter in cables; prices by the table of the Hamming mesh paper, a switch box scaled by its ports',
    ];
    return answer(options.html, {
      document: {
        endpoints: options.endpoints,
        radix: options.radix,
        topologies: found.map(({ document }) => document),
        refused,
      },
      text: lines.join('\n'),
      page: () => ({
        title: `Networks for ${grouped(options.endpoints)} endpoints`,
        subtitle: `Switches of ${options.radix} ports, ${options.planes} plane${options.planes === 1 ? '' : 's'}`,
        sections: [
          {
            heading: 'Side by side',
            text: 'Diameter in cables. Bisection in links, and as a share of what half the endpoints can inject; ~ marks estimates.',
            tables: [{ head, rows: found.map(({ row }) => row) }],
          },
          {
            heading: 'What they look like',
            text: 'Small instances of the same kinds.',
            figures: topologies
              .filter((topology) => found.some((entry) => entry.topology === topology.name))
              .map((topology) => {
                const network = topology.build(topology.fit(sampleSizes[topology.name] ?? 32, 12));
                return {
                  svg: drawNetwork(network, { size: 460 }),
                  caption: `${topology.name}: ${network.name}, ${network.endpoints} endpoints`,
                };
              }),
          },
        ],
      }),
    });
  },
});

/** Endpoints of the drawn samples, where 32 is not the clearest. */
const sampleSizes: Readonly<Record<string, number>> = {
  chain: 8,
  ring: 12,
  mesh: 25,
  torus: 25,
  torus3d: 27,
  'leaf-spine': 24,
  'fat-tree': 108,
  dragonfly: 72,
  'dragonfly-plus': 40,
  'slim-fly': 96,
};
