/** All-reduce as a reduce followed by a broadcast: the frame of the linear and binomial forms. */

import { embed, staged } from '../../schedule/compose.js';
import { DATA } from '../../schedule/contract.js';
import { defineSchedule, type Schedule } from '../../schedule/schedule.js';

/** @param down must have the same root and chunks as `up`. */
export function reduceThenBroadcast(algorithm: string, up: Schedule, down: Schedule): Schedule {
  const members = Array.from({ length: up.size }, (_, rank) => rank);
  const { lanes, steps, program } = staged([
    { lanes: up.lanes, steps: up.steps, instructions: (rank) => embed(up, rank, { members, finish: true }) },
    { lanes: down.lanes, steps: down.steps, instructions: (rank) => embed(down, rank, { members }) },
  ]);
  return defineSchedule({
    collective: 'allreduce',
    algorithm,
    size: up.size,
    chunks: up.chunks,
    buffers: [DATA],
    lanes,
    steps,
    program,
  });
}
