/**
 * Fat tree (folded Clos of one switch size): as many links up as down at every level, so any permutation of endpoints
 * can run at full rate. Three levels of radix k carry k^3/4 endpoints: k pods, each with k/2 edge and k/2 aggregation
 * switches, under k^2/4 core switches.
 *
 * ```
 *   core          ┌─ (k/2)^2 switches, one link to every pod ─┐
 *   aggregation   [k/2 per pod]   ...   [k/2 per pod]
 *   edge          [k/2 per pod]   ...   [k/2 per pod]
 *   endpoints      k/2 per edge switch
 * ```
 * It may be bought pod by pod: with fewer than k pods a core switch takes several links of the same pod, and half as many core switches per column as there are pods
 * are enough. Levels other than three have figures; graphs exist for two and three.
 */
import { PlanRefusal } from '../refusal.js';
import { buildLeafSpine } from './leaf-spine.js';
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

export const fatTree: Topology = {
  name: 'fat-tree',
  summary: 'folded Clos of one switch size, non-blocking; the usual answer up to some ten thousand endpoints',
  parameters: [
    { name: 'radix', meaning: 'ports per switch, even', minimum: 4 },
    { name: 'levels', meaning: 'levels of switches', minimum: 2, default: 3 },
    { name: 'pods', meaning: 'pods in place (three levels only)', minimum: 1, default: (given) => given['radix'] as number },
  ],

  figures(given) {
    const parameters = check(given);
    const [k, levels, pods] = ['radix', 'levels', 'pods'].map((name) => scalar(parameters, name));
    const half = k / 2;
    const share = pods / k;
    const full = 2 * half ** levels;
    const n = full * share;
    // Every level below the top has 2 half^(levels-1) switches; the top has half of that.
    const below = (levels - 1) * 2 * half ** (levels - 1) * share;
    const top = levels === 3 ? half * coresPerColumn(pods) : half ** (levels - 1);
    const topPorts = levels === 3 ? Math.ceil((pods * half) / coresPerColumn(pods)) : k;
    const fabric = (levels - 1) * n;
    return {
      topology: 'fat-tree',
      parameters,
      endpoints: n,
      switches: below + top,
      switchSizes:
        pods === k
          ? [{ ports: k, count: below + top }]
          : [
              { ports: k, count: below },
              { ports: topPorts, count: top },
            ],
      radix: k,
      links: countLinks([
        ['host', 'dac', n],
        ['up', 'aoc', levels > 2 ? fabric - n : fabric],
        ['core', 'aoc', levels > 2 ? n : 0],
      ]),
      diameter: diameterBehindSwitches(pods === 1 && levels === 3 ? 2 : 2 * (levels - 1)),
      bisection: { links: n / 2, exactness: pods % 2 === 0 ? 'exact' : 'estimate', relative: 1 },
      kind: 'indirect',
      regular: pods % 2 === 0,
      blocking: { nonBlocking: true, ratio: 1 },
    };
  },

  build(given): Network {
    const parameters = check(given);
    const [k, levels, pods] = ['radix', 'levels', 'pods'].map((name) => scalar(parameters, name));
    if (levels === 2) return buildLeafSpine({ radix: k, leaves: k, down: k / 2, up: k / 2, spines: k / 2 });
    if (levels !== 3) throw new PlanRefusal(`fat-tree: the graph is built for two and three levels, not ${levels}`, '3');
    return buildPods({
      down: k / 2,
      up: k / 2,
      leavesPerPod: k / 2,
      pods,
      coresPerColumn: coresPerColumn(pods),
      name: `fat tree radix ${k}`,
    });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const [k, levels, pods] = ['radix', 'levels', 'pods'].map((name) => scalar(parameters, name));
    if (levels === 3 && pods < k) {
      const [before, after] = [coresPerColumn(pods), coresPerColumn(pods + 1)];
      const moved = Math.round(pods * (k / 2) ** 2 * (1 - before / after));
      return {
        parameters: { radix: k, levels, pods: pods + 1 },
        movedLinks: moved,
        keepsSwitches: true,
        description: 'one pod more, and core switches for it',
      };
    }
    return {
      parameters: { radix: k, levels: levels + 1 },
      movedLinks: 0,
      keepsSwitches: true,
      description: `full: a level more, ${k / 2} times the endpoints`,
    };
  },

  fit(endpoints, radix) {
    const k = radix - (radix % 2);
    const full = k ** 3 / 4;
    if (endpoints > full)
      throw new PlanRefusal(
        `a three-level fat tree of radix ${k} ends at ${full} endpoints`,
        `radix ${Math.ceil(Math.cbrt(4 * endpoints) / 2) * 2}`,
      );
    const pods = Math.ceil(endpoints / (k ** 2 / 4));
    if (pods > 1) return { radix: k, levels: 3, pods };
    const least = Math.max(4, 2 * Math.ceil(Math.cbrt(4 * endpoints) / 2 - 1e-9)); // one pod would do: smaller switches
    return { radix: least, levels: 3, pods: Math.ceil(endpoints / (least ** 2 / 4)) };
  },
};

function coresPerColumn(pods: number): number {
  return Math.ceil(pods / 2);
}

function check(given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(fatTree, given);
  const k = scalar(parameters, 'radix');
  const pods = scalar(parameters, 'pods');
  if (k % 2 === 1) throw new PlanRefusal(`fat-tree: radix ${k} is odd, and half the ports go up`, String(k + 1));
  if (pods > k) throw new PlanRefusal(`fat-tree: ${pods} pods, but a core switch has ${k} ports`, `pods=${k}`);
  if (pods !== k && scalar(parameters, 'levels') !== 3) throw new PlanRefusal('fat-tree: pods are for three levels', `pods=${k}`);
  return parameters;
}

/** Three levels of pods: leaf `down`/`up`; one aggregation switch per uplink and pod; a column of cores per aggregation switch. */
export function buildPods(o: {
  down: number;
  up: number;
  leavesPerPod: number;
  pods: number;
  coresPerColumn: number;
  name: string;
}): Network {
  const { down, up, leavesPerPod, pods, coresPerColumn } = o;
  const leaves = leavesPerPod * pods;
  const n = leaves * down;
  const builder = new NetworkBuilder(o.name, n);
  for (let i = 0; i < n; i++) builder.place(i, (i + 0.5) / n, 0.96);
  const leaf = Array.from({ length: leaves }, (_, i) => builder.addSwitch((i + 0.5) / leaves, 0.7));
  const aggregation = Array.from({ length: pods * up }, (_, i) => builder.addSwitch((i + 0.5) / (pods * up), 0.4));
  const core = Array.from({ length: up * coresPerColumn }, (_, i) => builder.addSwitch((i + 0.5) / (up * coresPerColumn), 0.06));
  for (let l = 0; l < leaves; l++) {
    const pod = Math.floor(l / leavesPerPod);
    for (let i = 0; i < down; i++) builder.addLink(l * down + i, leaf[l], 'host', 'dac');
    for (let j = 0; j < up; j++) builder.addLink(leaf[l], aggregation[pod * up + j], 'up', 'aoc');
  }
  for (let pod = 0; pod < pods; pod++) {
    for (let j = 0; j < up; j++) {
      for (let i = 0; i < leavesPerPod; i++) {
        const column = (pod * leavesPerPod + i) % coresPerColumn;
        builder.addLink(aggregation[pod * up + j], core[j * coresPerColumn + column], 'core', 'aoc');
      }
    }
  }
  return builder.build({ endpointsForward: false });
}
