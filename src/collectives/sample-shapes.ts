/** The shapes on which every algorithm is tried: sizes, roots, segment counts, servers, shards and invented topologies. */

import { listedTopology, regularTopology, type Topology } from '../schedule/topology.js';
import type { Algorithm, Shape } from './algorithm.js';

const ROOTED = new Set(['broadcast', 'reduce', 'gather', 'scatter', 'send-receive']);

/** Supported shapes for p ranks: many for small sizes, one or two of each kind for larger ones. */
export function sampleShapes(algorithm: Algorithm, size: number): Shape[] {
  const few = size > 9;
  const roots = ROOTED.has(algorithm.collective)
    ? distinct(few ? [0, 1, size - 1] : [0, 1, Math.floor(size / 2), size - 1], size)
    : [0];
  const segments = algorithm.tunable === 'segments' ? (few ? [2 + (size % 2)] : [1, 2 + (size % 4)]) : [undefined];
  const shards =
    algorithm.needs === 'shards'
      ? few
        ? [size > 33 ? size : (1 + (size % 3)) * size]
        : [size, 2 * size, 3 * size]
      : [undefined];
  const servers = algorithm.name.startsWith('parameter-server')
    ? distinct(few ? [Math.ceil(size / 3), size] : [1, Math.ceil(size / 3), size], size + 1)
    : [undefined];
  const radix = algorithm.name === 'in-network' ? (few ? [16] : [2, 3, 16]) : [undefined];
  const invented = sampleTopologies(size);
  const topologies = few ? [undefined, invented[0], invented[size % 2 === 0 ? 3 : 4]] : [undefined, ...invented];
  const shapes: Shape[] = [];
  for (const root of roots) {
    for (const s of segments) {
      for (const v of shards) {
        for (const k of servers) {
          for (const r of radix) {
            for (const topology of topologies)
              shapes.push({ size, bytes: 8 * size, root, segments: s, shards: v, servers: k, radix: r, topology });
          }
        }
      }
    }
  }
  return shapes.filter(
    (shape) => algorithm.supports(shape) === true && (shape.topology === undefined || usesTopology(algorithm)),
  );
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

function usesTopology({ name }: Algorithm): boolean {
  return name.startsWith('hierarchical') || name === 'ring' || name === 'multi-ring' || name === 'chain';
}

function distinct(values: readonly number[], below: number): number[] {
  return [...new Set(values)].filter((value) => value >= 0 && value < below);
}
