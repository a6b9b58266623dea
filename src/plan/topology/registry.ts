/**
 * All topologies by name, and the short form in which the command line writes one: `dragonfly:p=4,a=8,h=4`, `torus:sizes=8x8x8`.
 */
import { closest } from '../../native/nearest.js';
import { PlanRefusal } from '../refusal.js';
import { blockingFatTree } from './blocking-fat-tree.js';
import { chain } from './chain.js';
import { dragonfly } from './dragonfly.js';
import { dragonflyPlus } from './dragonfly-plus.js';
import { fatTree } from './fat-tree.js';
import { hammingMesh } from './hamming-mesh.js';
import { hyperx } from './hyperx.js';
import { leafSpine } from './leaf-spine.js';
import { mesh } from './mesh.js';
import { ring } from './ring.js';
import { slimFly } from './slim-fly.js';
import type { Topology, TopologyParameters } from './topology.js';
import { torus, torus3d } from './torus.js';
import { tree } from './tree.js';

/** All kinds of topologies, in the order of the tables. */
export const topologies: readonly Topology[] = [
  chain,
  ring,
  mesh,
  torus,
  torus3d,
  tree,
  leafSpine,
  fatTree,
  blockingFatTree,
  dragonfly,
  dragonflyPlus,
  hammingMesh,
  hyperx,
  slimFly,
];

/** The topology of that name. Refuses an unknown one with the closest name. */
export function topologyNamed(name: string): Topology {
  const found = topologies.find((topology) => topology.name === name);
  if (found !== undefined) return found;
  const names = topologies.map((topology) => topology.name);
  throw new PlanRefusal(`there is no topology "${name}"; there are ${names.join(', ')}`, closest(name, names));
}

/** One parameter value in its short form: `8` or `8x8x4`. */
export function parseParameter(name: string, text: string): number | readonly number[] {
  const parts = text.split('x').map(Number);
  if (text.trim() === '' || parts.some((part) => Number.isNaN(part)))
    throw new PlanRefusal(`${name}=${text} is not a number or a list such as 8x8`);
  return parts.length === 1 ? parts[0] : parts;
}

/** Reads `name:key=value,key=value`. */
export function parseTopology(text: string): { topology: Topology; parameters: TopologyParameters } {
  const [name, rest = ''] = text.split(/:(.*)/s);
  const topology = topologyNamed(name);
  const parameters: Record<string, number | readonly number[]> = {};
  for (const part of rest.split(',').filter((piece) => piece !== '')) {
    const [key, value] = part.split('=');
    if (value === undefined)
      throw new PlanRefusal(
        `"${part}" is not key=value`,
        `${name}:${topology.parameters.map((rule) => `${rule.name}=...`).join(',')}`,
      );
    parameters[key] = parseParameter(key, value);
  }
  return { topology, parameters };
}
