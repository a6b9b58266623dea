/**
 * Blocking (tapered) fat tree: leaves have more ports down than up, everything above the leaves is non-blocking. Saves
 * most of the upper levels; a permutation that leaves the leaf runs at up/down of the full rate.
 *
 * Two levels are a leaf-spine. Three levels: `leaves * up` uplinks enter aggregation switches that pass half their ports
 * on to the core; switches are counted by ports, rounded up, so any number of leaves has figures. The graph needs whole pods of radix/2 leaves.
 */
import { PlanRefusal } from '../refusal.js';
import { buildPods } from './fat-tree.js';
import { buildLeafSpine, checkLeafSpine, leafSpineFigures } from './leaf-spine.js';
import type { Network } from './network.js';
import {
  countLinks,
  diameterBehindSwitches,
  type GrowthStep,
  readParameters,
  scalar,
  type Topology,
  type TopologyParameters,
} from './topology.js';

export const blockingFatTree: Topology = {
  name: 'blocking-fat-tree',
  summary: 'fat tree with fewer uplinks than downlinks at the leaves, any ratio',
  parameters: [
    { name: 'radix', meaning: 'ports per switch, even', minimum: 4 },
    {
      name: 'down',
      meaning: 'ports of a leaf to endpoints',
      minimum: 1,
      default: (given) => Math.round((2 * (given['radix'] as number)) / 3),
    },
    {
      name: 'up',
      meaning: 'ports of a leaf upward',
      minimum: 1,
      default: (given) => (given['radix'] as number) - (given['down'] as number),
    },
    { name: 'levels', meaning: 'levels of switches, 2 or 3', minimum: 2, default: 2 },
    {
      name: 'leaves',
      meaning: 'leaf switches',
      minimum: 1,
      default: (given) => (given['levels'] === 2 ? (given['radix'] as number) : (given['radix'] as number) ** 2 / 2),
    },
  ],

  figures(given) {
    const parameters = check(given);
    if (scalar(parameters, 'levels') === 2) return { ...leafSpineFigures('blocking-fat-tree', twoLevel(parameters)), parameters };
    const [radix, down, up, leaves] = ['radix', 'down', 'up', 'leaves'].map((name) => scalar(parameters, name));
    const n = leaves * down;
    const uplinks = leaves * up;
    const aggregation = Math.ceil(uplinks / (radix / 2));
    const pods = leaves / (radix / 2);
    const core = Number.isInteger(pods) ? up * Math.ceil(pods / 2) : Math.ceil(uplinks / radix);
    const cut = (n / 2) * Math.min(1, up / down);
    return {
      topology: 'blocking-fat-tree',
      parameters,
      endpoints: n,
      switches: leaves + aggregation + core,
      switchSizes: [
        { ports: down + up, count: leaves },
        { ports: radix, count: aggregation + core },
      ],
      radix,
      links: countLinks([
        ['host', 'dac', n],
        ['up', 'aoc', uplinks],
        ['core', 'aoc', uplinks],
      ]),
      diameter: diameterBehindSwitches(leaves <= radix / 2 ? 2 : 4),
      bisection: { links: cut, exactness: leaves % radix === 0 ? 'exact' : 'estimate', relative: cut / (n / 2) },
      kind: 'indirect',
      regular: down + up === radix && uplinks % radix === 0,
      blocking: { nonBlocking: up >= down, ratio: Math.max(1, down / up) },
    };
  },

  build(given): Network {
    const parameters = check(given);
    if (scalar(parameters, 'levels') === 2) return buildLeafSpine(twoLevel(parameters));
    const [radix, down, up, leaves] = ['radix', 'down', 'up', 'leaves'].map((name) => scalar(parameters, name));
    const half = radix / 2;
    if (leaves % half !== 0) {
      throw new PlanRefusal(
        `blocking-fat-tree: the three-level graph is built of whole pods of ${half} leaves, and ${leaves} are not`,
        `leaves=${Math.max(half, Math.round(leaves / half) * half)}`,
      );
    }
    const pods = leaves / half;
    return buildPods({
      down,
      up,
      leavesPerPod: half,
      pods,
      coresPerColumn: Math.ceil(pods / 2),
      name: `blocking fat tree radix ${radix}, ${down}:${up}`,
    });
  },

  grow(given): GrowthStep {
    const parameters = check(given);
    const [radix, down, up, levels, leaves] = ['radix', 'down', 'up', 'levels', 'leaves'].map((name) => scalar(parameters, name));
    if (levels === 2 && leaves === radix) {
      return {
        parameters: { radix, down, up, levels: 3, leaves: leaves + radix / 2 },
        movedLinks: leaves * up,
        keepsSwitches: true,
        description: 'spines are full: a third level',
      };
    }
    const step = levels === 2 ? 1 : radix / 2;
    if (levels === 3 && leaves + step > radix ** 2 / 2) {
      return {
        parameters: { radix: radix + 2, down: down + 1, up: radix + 1 - down, levels, leaves },
        movedLinks: leaves * (down + up),
        keepsSwitches: false,
        description: `full: switches of ${radix + 2} ports throughout`,
      };
    }
    return {
      parameters: { radix, down, up, levels, leaves: leaves + step },
      movedLinks: 0,
      keepsSwitches: true,
      description: step === 1 ? 'one leaf more' : 'one pod more',
    };
  },

  fit(endpoints, radix) {
    const k = radix - (radix % 2);
    const down = Math.round((2 * k) / 3);
    const leaves = Math.ceil(endpoints / down);
    if (leaves <= k) return { radix: k, down, up: k - down, levels: 2, leaves };
    if (leaves > k ** 2 / 2)
      throw new PlanRefusal(
        `three levels of radix ${k} at ${down}:${k - down} end at ${(down * k ** 2) / 2} endpoints`,
        `radix ${Math.ceil(Math.cbrt(3 * endpoints) / 2) * 2}`,
      );
    return { radix: k, down, up: k - down, levels: 3, leaves };
  },
};

function twoLevel(p: TopologyParameters): TopologyParameters {
  const [radix, leaves, down, up] = ['radix', 'leaves', 'down', 'up'].map((name) => scalar(p, name));
  return checkLeafSpine('blocking-fat-tree', { radix, leaves, down, up, spines: Math.ceil((leaves * up) / radix) });
}

function check(given: TopologyParameters): TopologyParameters {
  const p = readParameters(blockingFatTree, given);
  const [radix, down, up, levels, leaves] = ['radix', 'down', 'up', 'levels', 'leaves'].map((name) => scalar(p, name));
  if (radix % 2 === 1) throw new PlanRefusal(`blocking-fat-tree: radix ${radix} is odd`, String(radix + 1));
  if (levels > 3) throw new PlanRefusal(`blocking-fat-tree: ${levels} levels`, '3');
  if (down + up > radix)
    throw new PlanRefusal(
      `blocking-fat-tree: ${down} ports down and ${up} up do not fit a switch of ${radix}`,
      `up=${Math.max(1, radix - down)}`,
    );
  const most = levels === 2 ? radix : radix ** 2 / 2;
  if (leaves > most)
    throw new PlanRefusal(
      `blocking-fat-tree: ${leaves} leaves, but ${levels} levels of radix ${radix} join at most ${most}`,
      `leaves=${most}`,
    );
  return p;
}
