/**
 * Dragonfly: groups of routers that are fully joined inside, and groups that are joined pairwise by long cables. A group acts as
 * one router of very many ports, so three hops (local, global, local) cross the machine, and only the global hops need optics.
 *
 * ```
 *   p endpoints per router, a routers per group, h global links per router, g <= a h + 1 groups
 *   balanced: a = 2p = 2h   (a minimal path takes up to two local hops for each global one)
 * ```
 * Global ports are dealt out by distance between groups: group i reaches group i + d through port d - 1 (times the number of parallel
 * links); the ports that are left when a h is no multiple of g - 1 go to the nearest groups around. Published: Kim, Dally, Scott, Abts 2008.
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
  type TopologyParameters,
} from './topology.js';

export const dragonfly: Topology = {
  name: 'dragonfly',
  summary: 'fully joined groups of fully joined routers; three switch hops, few long cables, half the bisection',
  parameters: [
    { name: 'p', meaning: 'endpoints per router', minimum: 1 },
    { name: 'a', meaning: 'routers per group', minimum: 2, default: (given) => 2 * (given['p'] as number) },
    { name: 'h', meaning: 'global links per router', minimum: 1, default: (given) => given['p'] as number },
    { name: 'groups', meaning: 'groups', minimum: 2, default: (given) => (given['a'] as number) * (given['h'] as number) + 1 },
    { name: 'perBox', meaning: 'routers that share one switch box', minimum: 1, default: 1 },
  ],

  figures(given) {
    const parameters = check(given);
    const [p, a, h, groups, perBox] = ['p', 'a', 'h', 'groups', 'perBox'].map((name) => scalar(parameters, name));
    const n = a * p * groups;
    const local = (groups * a * (a - 1)) / 2;
    const inBox = (a / perBox) * groups * ((perBox * (perBox - 1)) / 2);
    const global = globalLinks(a * h, groups);
    const cut = (global * groups) / (2 * (groups - 1));
    const ports = p + a - 1 + h;
    return {
      topology: 'dragonfly',
      parameters,
      endpoints: n,
      switches: a * groups,
      switchSizes: [{ ports: perBox * ports - perBox * (perBox - 1), count: (a / perBox) * groups }],
      radix: ports,
      links: countLinks([
        ['host', 'dac', n],
        ['local', 'board', inBox],
        ['local', 'dac', local - inBox],
        ['global', 'aoc', global],
      ]),
      diameter: diameterBehindSwitches(3),
      bisection: { links: cut, exactness: 'estimate', relative: cut / (n / 2) },
      kind: 'direct',
      regular: global * 2 === a * h * groups,
      blocking: { nonBlocking: false, ratio: Math.max(1, n / 2 / cut) },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const [p, a, h, groups, perBox] = ['p', 'a', 'h', 'groups', 'perBox'].map((name) => scalar(parameters, name));
    const n = a * p * groups;
    const builder = new NetworkBuilder(`dragonfly p=${p} a=${a} h=${h} groups=${groups}`, n);
    const router: number[] = [];
    for (let g = 0; g < groups; g++) {
      const angle = (2 * Math.PI * g) / groups;
      const size = Math.min(0.12, 1.1 / groups);
      const radius = 0.49 - size;
      for (let r = 0; r < a; r++) {
        const inner = angle + (2 * Math.PI * (r + 0.5)) / a;
        const [x, y] = [
          0.5 + radius * Math.sin(angle) + size * 0.6 * Math.sin(inner),
          0.5 - radius * Math.cos(angle) - size * 0.6 * Math.cos(inner),
        ];
        const vertex = builder.addSwitch(x, y);
        router.push(vertex);
        for (let i = 0; i < p; i++) {
          const spread = inner + ((i + 0.5) / p - 0.5) * ((2 * Math.PI) / a);
          const endpoint = (g * a + r) * p + i;
          builder.place(
            endpoint,
            0.5 + radius * Math.sin(angle) + size * Math.sin(spread),
            0.5 - radius * Math.cos(angle) - size * Math.cos(spread),
          );
          builder.addLink(endpoint, vertex, 'host', 'dac');
        }
      }
      for (let r = 0; r < a; r++) {
        for (let s = r + 1; s < a; s++) {
          builder.addLink(
            router[g * a + r],
            router[g * a + s],
            'local',
            Math.floor(r / perBox) === Math.floor(s / perBox) ? 'board' : 'dac',
          );
        }
      }
    }
    joinGroups(a * h, groups, (i, portI, j, portJ) => {
      builder.addLink(router[i * a + Math.floor(portI / h)], router[j * a + Math.floor(portJ / h)], 'global', 'aoc');
    });
    return builder.build({ endpointsForward: false });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const [p, a, h, groups, perBox] = ['p', 'a', 'h', 'groups', 'perBox'].map((name) => scalar(parameters, name));
    if (groups < a * h + 1) {
      // Every group gives up enough of its global cables for the links to the newcomer.
      const moved = Math.floor((a * h) / groups) * groups;
      return {
        parameters: { p, a, h, groups: groups + 1, perBox },
        movedLinks: Math.floor(moved / 2),
        keepsSwitches: true,
        description: 'one group more; global cables of all groups are dealt out again',
      };
    }
    return {
      parameters: { p: p + 1 },
      movedLinks: globalLinks(a * h, groups),
      keepsSwitches: false,
      description: `every global port is taken: routers of ${4 * (p + 1) - 1} ports throughout`,
    };
  },

  fit(endpoints, radix) {
    for (let p = 1; 4 * p - 1 <= radix; p++) {
      if (4 * p ** 4 + 2 * p ** 2 >= endpoints)
        return { p, a: 2 * p, h: p, groups: Math.max(2, Math.ceil(endpoints / (2 * p * p))) };
    }
    const most = Math.floor((radix + 1) / 4);
    throw new PlanRefusal(
      `a balanced dragonfly of radix ${radix} ends at ${4 * most ** 4 + 2 * most ** 2} endpoints`,
      `radix ${4 * Math.ceil((endpoints / 4) ** 0.25) - 1}`,
    );
  },
};

function check(given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(dragonfly, given);
  const [a, h, groups, perBox] = ['a', 'h', 'groups', 'perBox'].map((name) => scalar(parameters, name));
  if (groups > a * h + 1)
    throw new PlanRefusal(`dragonfly: ${groups} groups, but a group has ${a * h} global ports`, `groups=${a * h + 1}`);
  if (a % perBox !== 0) {
    let near = perBox;
    while (a % near !== 0) near--;
    throw new PlanRefusal(`dragonfly: boxes of ${perBox} routers do not fill a group of ${a}`, `perBox=${near}`);
  }
  return parameters;
}

/** Links between groups when every group has `ports` global ports: all of them, less one when ports and groups leave an odd one over. */
export function globalLinks(ports: number, groups: number): number {
  const rest = ports % (groups - 1);
  const spare = rest % 2 === 1 && groups % 2 === 1 ? groups : 0;
  return (ports * groups - spare) / 2;
}

/** Deals out the global ports of all groups; calls `link` once per cable with (group, port, group, port). */
export function joinGroups(
  ports: number,
  groups: number,
  link: (i: number, portI: number, j: number, portJ: number) => void,
): void {
  const each = Math.floor(ports / (groups - 1));
  for (let i = 0; i < groups; i++) {
    for (let j = i + 1; j < groups; j++) {
      for (let c = 0; c < each; c++) link(i, (j - i - 1) * each + c, j, (groups - (j - i) - 1) * each + c);
    }
  }
  const rest = ports % (groups - 1);
  let next = each * (groups - 1);
  for (let distance = 1; 2 * distance <= rest; distance++, next += 2) {
    for (let i = 0; i < groups; i++) link(i, next, (i + distance) % groups, next + 1);
  }
  if (rest % 2 === 1 && groups % 2 === 0) {
    for (let i = 0; i < groups / 2; i++) link(i, next, i + groups / 2, next);
  }
}
