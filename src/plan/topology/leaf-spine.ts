/**
 * Leaf-spine (two-level folded Clos): every leaf has links to every spine, so any two endpoints are at most two switch
 * hops apart. With as many uplinks as downlinks it is non-blocking; fewer uplinks make it blocking by the ratio down : up.
 *
 * Spines are shared: `leaves * up` uplinks need that many spine ports, and when leaves are few a spine takes several
 * links of the same leaf (the uplinks are dealt out in turn, so every spine carries the same number).
 */
import { PlanRefusal } from '../refusal.js';
import { type Network, NetworkBuilder } from './network.js';
import {
  countLinks,
  diameterBehindSwitches,
  type GrowthStep,
  readParameters,
  scalar,
  type Topology,
  type TopologyFigures,
  type TopologyParameters,
} from './topology.js';

export const leafSpine: Topology = {
  name: 'leaf-spine',
  summary: 'two-level folded Clos; any ratio of ports down to ports up',
  parameters: [
    { name: 'radix', meaning: 'ports per switch', minimum: 2 },
    { name: 'leaves', meaning: 'leaf switches', minimum: 1, default: (given) => given['radix'] as number },
    {
      name: 'down',
      meaning: 'ports of a leaf to endpoints',
      minimum: 1,
      default: (given) => Math.floor((given['radix'] as number) / 2),
    },
    {
      name: 'up',
      meaning: 'ports of a leaf to spines',
      minimum: 1,
      default: (given) => (given['radix'] as number) - (given['down'] as number),
    },
    {
      name: 'spines',
      meaning: 'spine switches',
      minimum: 1,
      default: (given) => Math.ceil(((given['leaves'] as number) * (given['up'] as number)) / (given['radix'] as number)),
    },
  ],

  figures(given) {
    return leafSpineFigures('leaf-spine', checkLeafSpine('leaf-spine', readParameters(leafSpine, given)));
  },

  build(given): Network {
    return buildLeafSpine(checkLeafSpine('leaf-spine', readParameters(leafSpine, given)));
  },

  grow(given): GrowthStep {
    const p = checkLeafSpine('leaf-spine', readParameters(leafSpine, given));
    const [radix, leaves, down, up] = ['radix', 'leaves', 'down', 'up'].map((name) => scalar(p, name));
    if (leaves < radix) {
      const spines = Math.max(scalar(p, 'spines'), Math.ceil(((leaves + 1) * up) / radix));
      const moved = spines > scalar(p, 'spines') ? leaves * up - Math.floor((leaves * up * scalar(p, 'spines')) / spines) : 0;
      return {
        parameters: { radix, leaves: leaves + 1, down, up, spines },
        movedLinks: moved,
        keepsSwitches: true,
        description: 'one leaf more, with its uplinks to the spines',
      };
    }
    return {
      parameters: { radix: radix + 2 },
      movedLinks: leaves * (down + up),
      keepsSwitches: false,
      description: `every spine is full: switches of ${radix + 2} ports throughout, or a third level`,
    };
  },

  fit(endpoints, radix) {
    const half = Math.floor(radix / 2);
    if (endpoints > half * radix) {
      throw new PlanRefusal(
        `a non-blocking leaf-spine of radix ${radix} ends at ${half * radix} endpoints`,
        `fat-tree, or radix ${Math.ceil(Math.sqrt(2 * endpoints) / 2) * 2}`,
      );
    }
    return { radix, leaves: Math.ceil(endpoints / half) };
  },
};

export function checkLeafSpine(name: string, p: TopologyParameters): TopologyParameters {
  const [radix, leaves, down, up, spines] = ['radix', 'leaves', 'down', 'up', 'spines'].map((key) => scalar(p, key));
  if (down + up > radix)
    throw new PlanRefusal(
      `${name}: ${down} ports down and ${up} up do not fit a switch of ${radix}`,
      `up=${Math.max(1, radix - down)}`,
    );
  if (spines > up)
    throw new PlanRefusal(
      `${name}: ${spines} spines, but a leaf has only ${up} uplinks and must reach every spine`,
      `spines=${up}`,
    );
  if (Math.ceil((leaves * up) / spines) > radix) {
    throw new PlanRefusal(
      `${name}: ${spines} spines of ${radix} ports cannot take ${leaves * up} uplinks`,
      `spines=${Math.ceil((leaves * up) / radix)}`,
    );
  }
  return p;
}

export function leafSpineFigures(topology: string, p: TopologyParameters): TopologyFigures {
  const [leaves, down, up, spines] = ['leaves', 'down', 'up', 'spines'].map((name) => scalar(p, name));
  const n = leaves * down;
  const uplinks = leaves * up;
  const cut = (n / 2) * Math.min(1, up / down);
  const spinePorts = Math.ceil(uplinks / spines);
  const even = leaves % 2 === 0 && up % spines === 0;
  return {
    topology,
    parameters: p,
    endpoints: n,
    switches: leaves + spines,
    switchSizes: [
      { ports: down + up, count: leaves },
      { ports: spinePorts, count: spines },
    ],
    radix: Math.max(down + up, spinePorts),
    links: countLinks([
      ['host', 'dac', n],
      ['up', 'aoc', uplinks],
    ]),
    diameter: diameterBehindSwitches(leaves > 1 ? 2 : 0),
    bisection: { links: cut, exactness: even ? 'exact' : 'estimate', relative: cut / (n / 2) },
    kind: 'indirect',
    regular: spinePorts === down + up && uplinks % spines === 0,
    blocking: { nonBlocking: up >= down, ratio: Math.max(1, down / up) },
  };
}

export function buildLeafSpine(p: TopologyParameters): Network {
  const [leaves, down, up, spines] = ['leaves', 'down', 'up', 'spines'].map((name) => scalar(p, name));
  const n = leaves * down;
  const builder = new NetworkBuilder(`leaf-spine ${leaves} leaves, ${down} down, ${up} up`, n);
  for (let i = 0; i < n; i++) builder.place(i, (i + 0.5) / n, 0.95);
  const leaf = Array.from({ length: leaves }, (_, i) => builder.addSwitch((i + 0.5) / leaves, 0.6));
  const spine = Array.from({ length: spines }, (_, i) => builder.addSwitch((i + 0.5) / spines, 0.1));
  for (let l = 0; l < leaves; l++) {
    for (let i = 0; i < down; i++) builder.addLink(l * down + i, leaf[l], 'host', 'dac');
    for (let i = 0; i < up; i++) builder.addLink(leaf[l], spine[(l * up + i) % spines], 'up', 'aoc');
  }
  return builder.build({ endpointsForward: false });
}
