/**
 * Closed-form data for trying a schedule: what to put into the buffers, and what must be there afterwards.
 *
 * Contributor c has the value (c + 1) * (1 + (31 chunk + 17 i) mod 101) at place i of a chunk: small integers, so every order of additions gives the same
 * exact sum, and a wrong contributor, chunk or place shows. Places that hold nothing yet are poisoned.
 */

import { finalContent, initialContent, windowOf } from './contract.js';
import type { NodeMemory } from './interpreter.js';
import type { Schedule } from './schedule.js';
import { pieces } from './split.js';

const POISON = 77;

/** Fills every buffer of every node for the start. */
export function fillMemory(schedule: Schedule, memory: readonly NodeMemory[]): void {
  visitChunks(schedule, memory, (node, buffer, chunk, view) => {
    const content = initialContent(schedule, node, buffer, chunk);
    for (let i = 0; i < view.length; i++) view[i] = content === undefined ? POISON : sumOf(content.ranks, content.chunk, i);
  });
}

/** The first place that differs from what the collective promises, as text; undefined when there is none. */
export function findMismatch(schedule: Schedule, memory: readonly NodeMemory[]): string | undefined {
  let found: string | undefined;
  visitChunks(schedule, memory, (node, buffer, chunk, view) => {
    const content =
      node < schedule.size && schedule.buffers[buffer].kind === 'user' ? finalContent(schedule, node, buffer, chunk) : undefined;
    if (content === undefined || found !== undefined) return;
    for (let i = 0; i < view.length; i++) {
      const wanted = sumOf(content.ranks, content.chunk, i);
      if (view[i] === wanted) continue;
      found = `rank ${node} has ${view[i]} at place ${i} of chunk ${chunk} of ${schedule.buffers[buffer].name}, not ${wanted}`;
      return;
    }
  });
  return found;
}

function visitChunks(
  schedule: Schedule,
  memory: readonly NodeMemory[],
  visit: (node: number, buffer: number, chunk: number, view: NodeMemory['buffers'][number]) => void,
): void {
  for (let node = 0; node < schedule.nodes; node++) {
    for (let id = 0; id < schedule.buffers.length; id++) {
      const window = windowOf(schedule, id, node);
      for (let k = 0; k < window.count; k++) {
        const chunk = (window.first + k) % schedule.chunks;
        const [piece] = pieces(memory[node].splits[id], window, chunk, 1);
        visit(node, id, chunk, memory[node].buffers[id].subarray(piece.offset, piece.offset + piece.length));
      }
    }
  }
}

function sumOf(contributors: bigint, chunk: number, place: number): number {
  let weight = 0;
  for (let c = 1, rest = contributors; rest > 0n; c++, rest >>= 1n) if (rest & 1n) weight += c;
  return weight * (1 + ((31 * chunk + 17 * place) % 101));
}
