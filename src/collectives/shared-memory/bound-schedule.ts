/** A schedule made ready for one rank: its encoded program, and what C has to know about each buffer. */

import { windowOf } from '../../schedule/contract.js';
import { encodeProgram } from '../../schedule/encoding.js';
import type { ChunkRange, Schedule } from '../../schedule/schedule.js';
import { CollectiveError } from '../errors.js';

/** As in native/collective.h and collective.c. */
const MOST_CHANNELS = 32;
const MOST_BUFFERS = 8;
const MOST_LANES = 64;

export interface BoundBuffer {
  readonly user: boolean;
  readonly window: ChunkRange;
  /** Peers reach it: it is sent from, or the schedule reads and writes peers' memory. */
  readonly exposed: boolean;
}

export interface BoundSchedule {
  readonly schedule: Schedule;
  readonly program: Int32Array;
  readonly buffers: readonly BoundBuffer[];
}

/** @throws COLL_INVALID for a schedule that processes of one host cannot run: switches, multicast, or too many channels. */
export function bindSchedule(schedule: Schedule, rank: number): BoundSchedule {
  const exposed = new Set<number>();
  const refuse = (why: string): never => {
    throw new CollectiveError('COLL_INVALID', `${schedule.collective}:${schedule.algorithm} cannot run here: ${why}`);
  };
  if (schedule.nodes > schedule.size) refuse('it needs switches or servers that are no ranks');
  if (schedule.buffers.length > MOST_BUFFERS) refuse(`it has more than ${MOST_BUFFERS} buffers`);
  if (schedule.lanes.length > MOST_LANES) refuse(`it has more than ${MOST_LANES} lanes`);
  for (const i of schedule.program(rank)) {
    if (i.op === 'multicast') refuse('there is no multicast between processes');
    if (i.channel >= MOST_CHANNELS) refuse(`it uses more than ${MOST_CHANNELS} channels`);
    if (i.op === 'send') exposed.add(i.buffer);
  }
  const reached = schedule.lanes.some(({ reach }) => reach === 'memory');
  const buffers = schedule.buffers.map(({ kind }, id) => ({
    user: kind === 'user',
    window: windowOf(schedule, id, rank),
    exposed: reached || exposed.has(id),
  }));
  return { schedule, program: encodeProgram(schedule, rank), buffers };
}
