/**
 * k-ary tree: endpoints at the leaves, one switch above every k. Logarithmic diameter at almost no cost, but the root
 * is the whole bisection: k/2 links whatever the size. A fat tree is the repair: as many links up as down at each level.
 *
 * Bisection for odd k: no child of the root can be split evenly, so on each of the d levels (k-1)/2 links fall.
 */
import { type Network, NetworkBuilder } from './network.js';
import { countLinks, diameterBehindSwitches, type GrowthStep, readParameters, scalar, type Topology } from './topology.js';

export const tree: Topology = {
  name: 'tree',
  summary: 'k-ary tree with endpoints as leaves; the root is the bottleneck',
  parameters: [
    { name: 'k', meaning: 'children per switch', minimum: 2 },
    { name: 'depth', meaning: 'levels of switches', minimum: 1 },
  ],

  figures(given) {
    const parameters = readParameters(tree, given);
    const k = scalar(parameters, 'k');
    const depth = scalar(parameters, 'depth');
    const n = k ** depth;
    const switches = (n - 1) / (k - 1);
    const cut = k % 2 === 0 ? k / 2 : (depth * (k - 1)) / 2;
    return {
      topology: 'tree',
      parameters,
      endpoints: n,
      switches,
      switchSizes:
        depth === 1
          ? [{ ports: k, count: 1 }]
          : [
              { ports: k, count: 1 },
              { ports: k + 1, count: switches - 1 },
            ],
      radix: depth === 1 ? k : k + 1,
      links: countLinks([
        ['host', 'dac', n],
        ['up', 'aoc', switches - 1],
      ]),
      diameter: diameterBehindSwitches(2 * depth - 2),
      bisection: { links: cut, exactness: 'exact', relative: cut / Math.floor(n / 2) },
      kind: depth === 1 ? 'direct' : 'indirect',
      regular: depth === 1,
      blocking: { nonBlocking: depth === 1, ratio: depth === 1 ? 1 : k ** (depth - 1) },
    };
  },

  build(given): Network {
    const parameters = readParameters(tree, given);
    const k = scalar(parameters, 'k');
    const depth = scalar(parameters, 'depth');
    const n = k ** depth;
    const builder = new NetworkBuilder(`${k}-ary tree of depth ${depth}`, n);
    let below = Array.from({ length: n }, (_, i) => i);
    for (const i of below) builder.place(i, (i + 0.5) / n, 0.95);
    for (let level = depth; level > 0; level--) {
      const above: number[] = [];
      for (let i = 0; i < below.length; i += k) {
        const up = builder.addSwitch((above.length + 0.5) / (below.length / k), 0.05 + (0.9 * (level - 1)) / depth);
        for (let j = 0; j < k; j++)
          builder.addLink(below[i + j], up, level === depth ? 'host' : 'up', level === depth ? 'dac' : 'aoc');
        above.push(up);
      }
      below = above;
    }
    return builder.build({ endpointsForward: false });
  },

  grow(given): GrowthStep {
    const parameters = readParameters(tree, given);
    const k = scalar(parameters, 'k');
    const depth = scalar(parameters, 'depth');
    return {
      parameters: { k, depth: depth + 1 },
      movedLinks: 0,
      keepsSwitches: true,
      description: `a new root over ${k} trees like this one`,
    };
  },

  fit(endpoints, radix) {
    const k = Math.max(2, radix - 1);
    let depth = 1;
    while (k ** depth < endpoints) depth++;
    return { k, depth };
  },
};
