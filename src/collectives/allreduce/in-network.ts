/**
 * In-network reduction: switches add what their ports bring and multicast the sum back. Exists for simulation and proof.
 *
 * Idea    Nodes p, p + 1, ... are switches of a tree with `radix` down ports. A switch combines a segment from all its ports, passes it up,
 *         and replicates what comes down.
 * Steps   2h hops for h levels of switches, and one more per further segment
 * Bytes   n up and n down through each host's port, at the same time once segments flow: n in all, half of the ring
 * Wins    Everywhere, if you have such switches. The arithmetic costs the hosts nothing.
 * Paper   Graham et al.: Scalable hierarchical aggregation protocol (SHArP), COM-HPC 2016.
 */

import { DATA } from '../../schedule/contract.js';
import { after, multicast, receive, receiveReduce, send } from '../../schedule/instruction.js';
import { defineSchedule, type Instruction } from '../../schedule/schedule.js';
import { type Algorithm, requireSupport } from '../algorithm.js';

const DEFAULT_SEGMENTS = 8;
const DEFAULT_RADIX = 16;
const [UP_IN, UP_OUT, DOWN_IN, DOWN_OUT] = [0, 1, 2, 3];
const LANES = ['up in', 'up out', 'down in', 'down out'].map((name) => ({ name, reach: 'network' as const }));
const DATA_ID = 0;
const SUM_ID = 1;
const DOWN_CHANNEL = 1;

interface Fabric {
  readonly nodes: number;
  readonly levels: number;
  parent(node: number): number;
  children(node: number): readonly number[];
  level(node: number): number;
}

/** Hosts are level 0; `radix` nodes of a level share a switch of the next, until one is left. */
function switchTree(size: number, radix: number): Fabric {
  const starts = [0];
  const counts = [size];
  while (counts[counts.length - 1] > 1) {
    starts.push(starts[starts.length - 1] + counts[counts.length - 1]);
    counts.push(Math.ceil(counts[counts.length - 1] / radix));
  }
  const levels = counts.length - 1;
  const level = (node: number): number => starts.findLastIndex((start) => node >= start);
  return {
    nodes: starts[levels] + counts[levels],
    levels,
    level,
    parent(node) {
      const l = level(node);
      return l === levels ? -1 : starts[l + 1] + Math.floor((node - starts[l]) / radix);
    },
    children(node) {
      const l = level(node);
      if (l === 0) return [];
      const first = (node - starts[l]) * radix;
      return Array.from({ length: Math.min(radix, counts[l - 1] - first) }, (_, k) => starts[l - 1] + first + k);
    },
  };
}

export const inNetwork: Algorithm = {
  collective: 'allreduce',
  name: 'in-network',
  description: 'switches add and multicast; half the bytes of a ring; a model',
  needs: 'switch-reduction',
  tunable: 'segments',
  supports: ({ radix = DEFAULT_RADIX }) => (radix >= 2 ? true : `radix must be >= 2, got ${radix}`),
  schedule(shape) {
    requireSupport(inNetwork, shape);
    const { size, segments = DEFAULT_SEGMENTS, radix = DEFAULT_RADIX } = shape;
    const fabric = switchTree(size, radix);

    function* program(node: number): Generator<Instruction> {
      const parent = fabric.parent(node);
      const children = fabric.children(node);
      const level = fabric.level(node);
      const buffer = level === 0 ? DATA_ID : SUM_ID;
      if (size === 1) return;
      for (let s = 0; s < segments; s++) {
        const up = level + s;
        const down = 2 * fabric.levels - level + s;
        const place = { buffer, first: s };
        for (let k = 0; k < children.length; k++) {
          const from = children[k];
          if (k === 0) yield receive({ lane: UP_IN, step: up - 1, from, ...place });
          else
            yield receiveReduce({
              lane: UP_IN,
              step: up - 1,
              from,
              ...place,
              finish: parent === -1 && k === children.length - 1,
            });
        }
        if (parent !== -1) {
          if (level > 0) yield after({ lane: UP_OUT, step: up, on: UP_IN, count: children.length * (s + 1) });
          yield send({ lane: UP_OUT, step: up, to: parent, ...place });
          yield after({ lane: DOWN_IN, step: down - 1, on: UP_OUT, count: s + 1 });
          yield receive({ lane: DOWN_IN, step: down - 1, from: parent, channel: DOWN_CHANNEL, ...place });
        }
        if (level === 0) continue;
        if (parent === -1) yield after({ lane: DOWN_OUT, step: down, on: UP_IN, count: children.length * (s + 1) });
        else yield after({ lane: DOWN_OUT, step: down, on: DOWN_IN, count: s + 1 });
        yield multicast({ lane: DOWN_OUT, step: down, channel: DOWN_CHANNEL, ...place });
      }
    }

    return defineSchedule({
      collective: 'allreduce',
      algorithm: 'in-network',
      size,
      nodes: fabric.nodes,
      chunks: segments,
      buffers: [DATA, { name: 'sum', kind: 'scratch', window: (node) => ({ first: 0, count: node < size ? 0 : segments }) }],
      lanes: LANES,
      steps: size === 1 ? 0 : 2 * fabric.levels + segments - 1,
      program,
    });
  },
  cost({ size, bytes: n, segments: s = DEFAULT_SEGMENTS, radix = DEFAULT_RADIX }) {
    if (size === 1) return { terms: [], gamma: 0 };
    const hops = 2 * switchTree(size, radix).levels + s - 1;
    return { terms: [{ level: 'switch', alpha: hops, beta: (hops * n) / s }], gamma: 0 };
  },
};
