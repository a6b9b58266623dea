/**
 * Ring: a chain whose ends are joined. Twice the bisection, half the diameter, and no far end. It is also the pattern
 * in which the ring all-reduce talks, whatever network lies under it.
 */
import { type Network, NetworkBuilder } from './network.js';
import { countLinks, diameterOfNodes, type GrowthStep, readParameters, scalar, type Topology } from './topology.js';

export const ring: Topology = {
  name: 'ring',
  summary: 'a closed chain; two links between the halves',
  parameters: [{ name: 'n', meaning: 'nodes', minimum: 3 }],

  figures(given) {
    const parameters = readParameters(ring, given);
    const n = scalar(parameters, 'n');
    return {
      topology: 'ring',
      parameters,
      endpoints: n,
      switches: n,
      switchSizes: [],
      radix: 2,
      links: countLinks([
        ['mesh', 'aoc', n - 1],
        ['wrap', 'aoc', 1],
      ]),
      diameter: diameterOfNodes(Math.floor(n / 2)),
      bisection: { links: 2, exactness: 'exact', relative: 1 / Math.floor(n / 2) },
      kind: 'direct',
      regular: true,
      blocking: { nonBlocking: n === 3, ratio: Math.max(1, Math.floor(n / 2) / 2) },
    };
  },

  build(given): Network {
    const n = scalar(readParameters(ring, given), 'n');
    const builder = new NetworkBuilder(`ring of ${n}`, n);
    for (let i = 0; i < n; i++) {
      const angle = (2 * Math.PI * i) / n;
      builder.place(i, 0.5 + 0.45 * Math.sin(angle), 0.5 - 0.45 * Math.cos(angle));
    }
    for (let i = 0; i + 1 < n; i++) builder.addLink(i, i + 1, 'mesh', 'aoc');
    builder.addLink(n - 1, 0, 'wrap', 'aoc');
    return builder.build({ endpointsForward: true, grid: { sizes: [n], wrap: true } });
  },

  grow(given): GrowthStep {
    const n = scalar(readParameters(ring, given), 'n');
    return {
      parameters: { n: n + 1 },
      movedLinks: 1,
      keepsSwitches: true,
      description: 'one node more, put into an opened link',
    };
  },

  fit(endpoints) {
    return { n: Math.max(3, endpoints) };
  },
};
