/**
 * Dragonfly+: a dragonfly whose groups are leaf-spines instead of fully joined routers. Endpoints hang on leaves, global cables on
 * spines, so a switch spends no ports on its own kind and the same radix reaches about four times as many endpoints.
 *
 * ```
 *   group:  s spines with h global links each
 *           l leaves with p endpoints each, every leaf joined to every spine
 *   g <= s h + 1 groups
 * ```
 * Published: Shpiner et al. 2017. With everything at half the radix: (k^2/4)(k^2/4 + 1) endpoints.
 */
import { PlanRefusal } from '../refusal.js';
import { globalLinks, joinGroups } from './dragonfly.js';
import { type Network, NetworkBuilder } from './network.js';
import {
  countLinks,
  diameterBehindSwitches,
  type GrowthStep,
  readParameters,
  scalar,
  type Topology,
  type TopologyParameters,
} from './topology.js';

export const dragonflyPlus: Topology = {
  name: 'dragonfly-plus',
  summary: 'dragonfly with leaf-spine groups; the largest reach per radix at three switch hops',
  parameters: [
    { name: 'p', meaning: 'endpoints per leaf', minimum: 1 },
    { name: 'l', meaning: 'leaves per group', minimum: 1, default: (given) => given['p'] as number },
    { name: 's', meaning: 'spines per group', minimum: 1, default: (given) => given['p'] as number },
    { name: 'h', meaning: 'global links per spine', minimum: 1, default: (given) => given['p'] as number },
    { name: 'groups', meaning: 'groups', minimum: 2, default: (given) => (given['s'] as number) * (given['h'] as number) + 1 },
  ],

  figures(given) {
    const parameters = check(given);
    const [p, l, s, h, groups] = ['p', 'l', 's', 'h', 'groups'].map((name) => scalar(parameters, name));
    const n = groups * l * p;
    const global = globalLinks(s * h, groups);
    const cut = (global * groups) / (2 * (groups - 1));
    return {
      topology: 'dragonfly-plus',
      parameters,
      endpoints: n,
      switches: groups * (l + s),
      switchSizes: [
        { ports: p + s, count: groups * l },
        { ports: l + h, count: groups * s },
      ],
      radix: Math.max(p + s, l + h),
      links: countLinks([
        ['host', 'dac', n],
        ['local', 'dac', groups * l * s],
        ['global', 'aoc', global],
      ]),
      diameter: diameterBehindSwitches(3),
      bisection: { links: cut, exactness: 'estimate', relative: cut / (n / 2) },
      kind: 'indirect',
      regular: p + s === l + h && global * 2 === s * h * groups,
      blocking: { nonBlocking: false, ratio: Math.max(1, n / 2 / cut) },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const [p, l, s, h, groups] = ['p', 'l', 's', 'h', 'groups'].map((name) => scalar(parameters, name));
    const builder = new NetworkBuilder(`dragonfly+ p=${p} l=${l} s=${s} h=${h} groups=${groups}`, groups * l * p);
    const spine: number[] = [];
    for (let g = 0; g < groups; g++) {
      const angle = (2 * Math.PI * g) / groups;
      const at = (radius: number, i: number, count: number): [number, number] => {
        const spread = angle + ((i + 0.5) / count - 0.5) * ((2 * Math.PI * 0.85) / groups);
        return [0.5 + radius * Math.sin(spread), 0.5 - radius * Math.cos(spread)];
      };
      const leaf = Array.from({ length: l }, (_, i) => builder.addSwitch(...at(0.38, i, l)));
      const own = Array.from({ length: s }, (_, i) => builder.addSwitch(...at(0.28, i, s)));
      spine.push(...own);
      for (let i = 0; i < l; i++) {
        for (let j = 0; j < p; j++) {
          const endpoint = (g * l + i) * p + j;
          builder.place(endpoint, ...at(0.47, i * p + j, l * p));
          builder.addLink(endpoint, leaf[i], 'host', 'dac');
        }
        for (const up of own) builder.addLink(leaf[i], up, 'local', 'dac');
      }
    }
    joinGroups(s * h, groups, (i, portI, j, portJ) => {
      builder.addLink(spine[i * s + Math.floor(portI / h)], spine[j * s + Math.floor(portJ / h)], 'global', 'aoc');
    });
    return builder.build({ endpointsForward: false });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const [p, l, s, h, groups] = ['p', 'l', 's', 'h', 'groups'].map((name) => scalar(parameters, name));
    if (groups < s * h + 1) {
      const moved = Math.floor((Math.floor((s * h) / groups) * groups) / 2);
      return {
        parameters: { p, l, s, h, groups: groups + 1 },
        movedLinks: moved,
        keepsSwitches: true,
        description: 'one group more; global cables of all groups are dealt out again',
      };
    }
    return {
      parameters: { p: p + 1 },
      movedLinks: globalLinks(s * h, groups),
      keepsSwitches: false,
      description: `every global port is taken: switches of ${2 * p + 2} ports throughout`,
    };
  },

  fit(endpoints, radix) {
    for (let p = 1; 2 * p <= radix; p++) {
      if (p * p * (p * p + 1) >= endpoints) return { p, groups: Math.max(2, Math.ceil(endpoints / (p * p))) };
    }
    const most = Math.floor(radix / 2) ** 2;
    throw new PlanRefusal(
      `a dragonfly+ of radix ${radix} ends at ${most * (most + 1)} endpoints`,
      `radix ${2 * Math.ceil(endpoints ** 0.25)}`,
    );
  },
};

function check(given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(dragonflyPlus, given);
  const [s, h, groups] = ['s', 'h', 'groups'].map((name) => scalar(parameters, name));
  if (groups > s * h + 1)
    throw new PlanRefusal(`dragonfly-plus: ${groups} groups, but a group has ${s * h} global ports`, `groups=${s * h + 1}`);
  return parameters;
}
