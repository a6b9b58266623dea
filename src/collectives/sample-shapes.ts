/** The shapes on which every algorithm is tried: sizes, roots, segment counts, servers, shards and invented topologies. */

import { listedTopology, regularTopology, type Topology } from '../schedule/topology.js';
import type { Algorithm, Shape } from './algorithm.js';

const ROOTED = new Set(['broadcast', 'reduce', 'gather', 'scatter', 'send-receive']);

/** Supported shapes for p ranks: many for small sizes, one or two of each kind for larger ones. */
export function sampleShapes(algorithm: Algorithm, size: number): Shape[] {
  const few = size > 9;
  const one = size > 33;
  const roots = ROOTED.has(algorithm.collective)
    ? distinct(few ? [0, 1, size - 1] : [0, 1, Math.floor(size / 2), size - 1], size)
    : [0];
  const segments = algorithm.tunable === 'segments' ? (few ? [2 + (size % 2)] : [1, 2 + (size % 4)]) : [undefined];
  const shards =
    algorithm.needs === 'shards'
      ? few
        ? [size > 20 ? size : (1 + (size % 3)) * size]
        : [size, 2 * size, 3 * size]
      : [undefined];
  const servers = algorithm.name.startsWith('parameter-server')
    ? distinct(one ? [Math.ceil(size / 3)] : [1, Math.ceil(size / 3), size], size + 1)
    : [undefined];
  const radix = algorithm.name === 'in-network' ? (few ? [16] : [2, 3, 16]) : [undefined];
  const invented = sampleTopologies(size);
  const topologies = few ? [invented[0], invented[invented.length - 1 - (size % 2)]] : invented;
  const base: Shape = { size, bytes: 8 * size };
  return [base]
    .flatMap((shape) => roots.map((root): Shape => ({ ...shape, root })))
    .flatMap((shape) => segments.map((s): Shape => ({ ...shape, segments: s })))
    .flatMap((shape) => shards.map((v): Shape => ({ ...shape, shards: v })))
    .flatMap((shape) => servers.map((k): Shape => ({ ...shape, servers: k })))
    .flatMap((shape) => radix.map((r): Shape => ({ ...shape, radix: r })))
    .flatMap((shape) => topologiesFor(algorithm, size, topologies).map((topology): Shape => ({ ...shape, topology })))
    .filter((shape) => algorithm.supports(shape) === true);
}

/** Hosts of 1, of a divisor, of all ranks; ranks dealt round-robin; and hosts of different sizes. */
export function sampleTopologies(size: number): Topology[] {
  const divisors = Array.from({ length: size }, (_, k) => k + 1).filter((g) => size % g === 0);
  const chosen = distinct([divisors[Math.floor(divisors.length / 2)], 1, size], size + 1);
  const regular = chosen.map((g) =>
    regularTopology({ hosts: size / g, ranksPerHost: g, numaPerHost: Math.min(2, g), nicsPerHost: 2 }),
  );
  if (size < 3) return regular;
  const dealt = Array.from({ length: size }, (_, rank) => ({ host: rank % 3, numa: rank % 2, nic: rank % 2 }));
  const uneven = Array.from({ length: size }, (_, rank) => ({ host: rank < size - 1 ? 0 : 1, numa: rank % 2, nic: 0 }));
  return [...regular, listedTopology(dealt, 2), listedTopology(uneven)];
}

function topologiesFor(algorithm: Algorithm, size: number, topologies: readonly Topology[]): (Topology | undefined)[] {
  if (algorithm.supports({ size, bytes: 0 }) !== true) return size > 33 ? topologies.slice(0, 1) : [...topologies];
  // Only the order of ranks depends on it: ranks dealt to hosts like cards show that.
  const dealt = topologies.find(({ ranksPerHost }) => ranksPerHost === undefined);
  return size <= 9 && dealt !== undefined ? [undefined, dealt] : [undefined];
}

function distinct(values: readonly number[], below: number): number[] {
  return [...new Set(values)].filter((value) => value >= 0 && value < below);
}
