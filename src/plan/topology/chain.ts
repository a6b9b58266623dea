/**
 * Chain: n nodes in a row, each joined to the next. The cheapest network there is: one cut link halves it, and the
 * far ends are n-1 hops apart. Stands here as the lower end of every comparison.
 */
import { type Network, NetworkBuilder } from './network.js';
import { countLinks, diameterOfNodes, type GrowthStep, readParameters, scalar, type Topology } from './topology.js';

export const chain: Topology = {
  name: 'chain',
  summary: 'nodes in a row; one link carries everything between the halves',
  parameters: [{ name: 'n', meaning: 'nodes', minimum: 2 }],

  figures(given) {
    const parameters = readParameters(chain, given);
    const n = scalar(parameters, 'n');
    return {
      topology: 'chain',
      parameters,
      endpoints: n,
      switches: n,
      switchSizes: [],
      radix: n > 2 ? 2 : 1,
      links: countLinks([['mesh', 'aoc', n - 1]]),
      diameter: diameterOfNodes(n - 1),
      bisection: { links: 1, exactness: 'exact', relative: 1 / (Math.floor(n / 2) * (n > 2 ? 2 : 1)) },
      kind: 'direct',
      regular: n === 2,
      blocking: { nonBlocking: n <= 3, ratio: Math.max(1, Math.floor(n / 2)) },
    };
  },

  build(given): Network {
    const n = scalar(readParameters(chain, given), 'n');
    const builder = new NetworkBuilder(`chain of ${n}`, n);
    for (let i = 0; i < n; i++) builder.place(i, (i + 0.5) / n, 0.5);
    for (let i = 0; i + 1 < n; i++) builder.addLink(i, i + 1, 'mesh', 'aoc');
    return builder.build({ endpointsForward: true, grid: { sizes: [n], wrap: false } });
  },

  grow(given): GrowthStep {
    const n = scalar(readParameters(chain, given), 'n');
    return { parameters: { n: n + 1 }, movedLinks: 0, keepsSwitches: true, description: 'one node more at the end' };
  },

  fit(endpoints) {
    return { n: Math.max(2, endpoints) };
  },
};
