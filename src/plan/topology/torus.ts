/**
 * Torus: a grid whose lines close into rings, in any number of dimensions (2D and 3D are the usual ones; a dimension of
 * size 2 has one link, not two, so sizes 2x2x...x2 are the hypercube).
 *
 * Bisection: cut across the largest dimension, two links for every ring that crosses. When that dimension is odd, the middle
 * slab has to be bisected too, and the same rule applies to the slab: for odd k this sums to 2(k^n - 1)/(k - 1).
 *
 * `board` gives the block of nodes that share a board; links inside it are traces and cost nothing. Everything else is optics.
 */
import { PlanRefusal } from '../refusal.js';
import { type Network, NetworkBuilder } from './network.js';
import {
  countLinks,
  diameterOfNodes,
  type GrowthStep,
  list,
  readParameters,
  type Topology,
  type TopologyParameters,
} from './topology.js';

export const torus = makeTorus(
  'torus',
  2,
  '2D torus (any number of dimensions through sizes); neighbours are close, strangers far',
);
export const torus3d = makeTorus('torus3d', 3, '3D torus; the network of several generations of supercomputers and TPU pods');

function makeTorus(name: string, dimensions: number, summary: string): Topology {
  const topology: Topology = {
    name,
    summary,
    parameters: [
      { name: 'sizes', meaning: 'nodes per dimension', minimum: 2, list: true },
      { name: 'board', meaning: 'nodes per dimension that share a board', minimum: 1, list: true, default: [1] },
    ],

    figures(given) {
      const parameters = check(topology, given);
      const sizes = list(parameters, 'sizes');
      const board = list(parameters, 'board');
      const n = sizes.reduce((product, size) => product * size, 1);
      let mesh = 0;
      let wrap = 0;
      let onBoard = 0;
      for (const [d, size] of sizes.entries()) {
        mesh += (n / size) * (size - 1);
        if (size > 2) wrap += n / size;
        onBoard += (n / board[d]) * (board[d] - 1);
        if (board[d] === size && size > 2) onBoard += n / size; // the whole ring is on one board
      }
      const wrapOnBoard = sizes.reduce((sum, size, d) => sum + (board[d] === size && size > 2 ? n / size : 0), 0);
      const ports = sizes.reduce((sum, size) => sum + (size > 2 ? 2 : 1), 0);
      const cut = torusBisection(sizes);
      const largest = Math.max(...sizes);
      const known = sizes.length <= 2 || largest % 2 === 0 || sizes.every((size) => size === largest);
      return {
        topology: name,
        parameters,
        endpoints: n,
        switches: n,
        switchSizes: [],
        radix: ports,
        links: countLinks([
          ['mesh', 'board', onBoard - wrapOnBoard],
          ['wrap', 'board', wrapOnBoard],
          ['mesh', 'aoc', mesh - (onBoard - wrapOnBoard)],
          ['wrap', 'aoc', wrap - wrapOnBoard],
        ]),
        diameter: diameterOfNodes(sizes.reduce((sum, size) => sum + Math.floor(size / 2), 0)),
        bisection: { links: cut, exactness: known ? 'exact' : 'upperBound', relative: cut / (Math.floor(n / 2) * ports) },
        kind: 'direct',
        regular: true,
        blocking: { nonBlocking: n <= 4, ratio: Math.max(1, Math.floor(n / 2) / cut) },
      };
    },

    build(given): Network {
      const parameters = check(topology, given);
      return buildTorus(list(parameters, 'sizes'), list(parameters, 'board'));
    },

    grow(given): GrowthStep {
      const parameters = check(topology, given);
      const sizes = [...list(parameters, 'sizes')];
      const board = list(parameters, 'board');
      const smallest = sizes.indexOf(Math.min(...sizes));
      const rings = sizes.reduce((product, size) => product * size, 1) / sizes[smallest];
      const moved = sizes[smallest] > 2 ? rings : 0;
      sizes[smallest] += board[smallest];
      return {
        parameters: { sizes, board },
        movedLinks: moved,
        keepsSwitches: true,
        description: 'one slab of nodes more; every ring it crosses is opened once',
      };
    },

    fit(endpoints) {
      const sizes: number[] = [];
      let rest = endpoints;
      for (let d = dimensions; d > 0; d--) {
        const size = d === 1 ? Math.max(2, Math.ceil(rest)) : Math.max(2, Math.floor(rest ** (1 / d) + 1e-9));
        sizes.push(size);
        rest /= size;
      }
      return { sizes: sizes.reverse() };
    },
  };
  return topology;
}

function check(topology: Topology, given: TopologyParameters): TopologyParameters {
  const parameters = readParameters(topology, given);
  const sizes = list(parameters, 'sizes');
  const given_ = list(parameters, 'board');
  const board = given_.length === 1 && given_[0] === 1 ? sizes.map(() => 1) : given_;
  if (board.length !== sizes.length) {
    throw new PlanRefusal(
      `${topology.name}: board has ${board.length} dimensions and sizes has ${sizes.length}`,
      sizes.map(() => 1).join('x'),
    );
  }
  for (const [d, size] of sizes.entries()) {
    if (size % board[d] !== 0) {
      throw new PlanRefusal(
        `${topology.name}: boards of ${board[d]} do not fill a dimension of ${size}`,
        String(Math.ceil(size / board[d]) * board[d]),
      );
    }
  }
  return { sizes, board };
}

/** Bisection width of a torus of these sizes, by the recursion in the head of this file. */
function torusBisection(sizes: readonly number[]): number {
  if (sizes.length === 0) return 0;
  const n = sizes.reduce((product, size) => product * size, 1);
  let best = Number.POSITIVE_INFINITY;
  for (const [d, size] of sizes.entries()) {
    const straight = (size > 2 ? 2 : 1) * (n / size);
    const slab = size % 2 === 0 ? 0 : torusBisection(sizes.filter((_, other) => other !== d));
    best = Math.min(best, straight + slab);
  }
  return best;
}

function buildTorus(sizes: readonly number[], board: readonly number[]): Network {
  const n = sizes.reduce((product, size) => product * size, 1);
  const builder = new NetworkBuilder(`torus ${sizes.join('x')}`, n);
  const [width, height] = [sizes[0], sizes[1] ?? 1];
  const depth = n / width / height;
  const slant = 0.42; // further dimensions stand behind, up and to the right
  for (let v = 0; v < n; v++) {
    const [x, y, z] = [v % width, Math.floor(v / width) % height, Math.floor(v / (width * height))];
    builder.place(
      v,
      (x + 0.5 + slant * z) / (width + slant * (depth - 1)),
      (y + 0.5 + slant * (depth - 1 - z)) / (height + slant * (depth - 1)),
    );
    let stride = 1;
    for (const [d, size] of sizes.entries()) {
      const c = Math.floor(v / stride) % size;
      if (c + 1 < size) builder.addLink(v, v + stride, 'mesh', (c + 1) % board[d] === 0 ? 'aoc' : 'board');
      else if (size > 2) builder.addLink(v, v - stride * (size - 1), 'wrap', board[d] === size ? 'board' : 'aoc');
      stride *= size;
    }
  }
  return builder.build({ endpointsForward: true, grid: { sizes, wrap: true } });
}
