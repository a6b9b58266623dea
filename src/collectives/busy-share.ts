/** How much of the ranks works on average while a collective runs, counted by walking its schedule: 1 in a ring, little in a tree. */

import type { Instruction } from '../schedule/schedule.js';
import type { Algorithm, Cost, Shape } from './algorithm.js';

const WORKS: ReadonlySet<Instruction['op']> = new Set([
  'receive',
  'receiveReduce',
  'copy',
  'reduce',
  'read',
  'readReduce',
  'write',
]);
/** More segments change little, and would take long to walk. */
const MOST_SEGMENTS = 8;

/** 0 < share <= 1: the bytes that all ranks move over what they could in the time of the critical path. */
export function busyShare(algorithm: Algorithm, cost: Cost, shape: Shape): number {
  const segments = shape.segments === undefined ? undefined : Math.min(shape.segments, MOST_SEGMENTS);
  const schedule = algorithm.schedule({ ...shape, segments });
  if (schedule.chunks === 0 || shape.bytes === 0) return 1;
  let chunks = 0;
  for (let rank = 0; rank < schedule.size; rank++)
    for (const { op, count } of schedule.program(rank)) if (WORKS.has(op)) chunks += count;
  const moved = (chunks * shape.bytes) / schedule.chunks;
  const path = cost.terms.reduce((sum, { beta }) => sum + beta, cost.copied ?? 0);
  return path === 0 || moved === 0 ? 1 : Math.min(1, moved / (schedule.size * path));
}
