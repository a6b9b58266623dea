/**
 * All topologies by name, and the short form in which the command line writes one: `dragonfly:p=4,a=8,h=4`, `torus:sizes=8x8x8`.
 */
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
  const near = [...topologies].sort((a, b) => editDistance(a.name, name) - editDistance(b.name, name))[0];
  throw new PlanRefusal(`there is no topology "${name}"; there are ${topologies.map((t) => t.name).join(', ')}`, near.name);
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

/** Steps of insertion, deletion or replacement from one word to the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length];
}
