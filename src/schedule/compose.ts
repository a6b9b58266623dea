/**
 * Schedules made of schedules: stages one after the other, and pipelines of them.
 *
 * A hierarchical collective is a reduce-scatter inside each host, an all-reduce between hosts, an all-gather inside each host. Each stage exists
 * already as a schedule of a smaller group; `embed` translates its ranks, chunks and buffers into those of the whole, `staged` chains the
 * stages. Each stage has lanes of its own (so each may bind to another executor) and channels of its own (so streams never mix). A stage of a
 * rank starts when the previous stage of that rank has completed; nothing waits for other ranks but their messages. With several segments,
 * stage i of segment s runs while stage i + 1 works on segment s - 1:
 *
 *   lanes of stage 0    seg 0 │ seg 1 │ seg 2
 *   lanes of stage 1          │ seg 0 │ seg 1 │ seg 2
 *   lanes of stage 2                  │ seg 0 │ seg 1 │ seg 2
 */

import { after } from './instruction.js';
import type { Instruction, LaneSpec, Schedule } from './schedule.js';

/** One stage, from the view of the whole group. */
export interface Stage {
  readonly lanes: readonly LaneSpec[];
  /** Steps of one segment. */
  readonly steps: number;
  /** What `rank` does for one segment, in ranks, chunks and buffers of the whole; lanes and channels of the stage. */
  instructions(rank: number, segment: number): Iterable<Instruction>;
}

/** Channels of one stage; sub-schedules use fewer. */
const CHANNELS_PER_STAGE = 8;

/** Stages in a chain: the lanes, and what each rank does in them. */
export interface Staged {
  readonly lanes: readonly LaneSpec[];
  readonly steps: number;
  program(rank: number): Iterable<Instruction>;
}

/** The instruction elsewhere in the whole. Every field is written out: a spread takes several times as long, and plans have millions of instructions. */
function placed(i: Instruction, lane: number, step: number, peer: number, channel: number, count: number): Instruction {
  const { op, buffer, first, otherBuffer, otherFirst, finish } = i;
  return { op, lane, step, peer, channel, buffer, first, count, otherBuffer, otherFirst, finish };
}

/** Chains stages. @param segments how many times the chain runs, overlapped. Default 1. */
export function staged(stages: readonly Stage[], segments = 1): Staged {
  const lanes = stages.flatMap((stage) => stage.lanes);
  const laneBase = stages.map((_, s) => stages.slice(0, s).reduce((sum, stage) => sum + stage.lanes.length, 0));
  const longest = Math.max(0, ...stages.map((stage) => stage.steps));
  const stepBase = (s: number, segment: number): number =>
    segments === 1 ? stages.slice(0, s).reduce((sum, stage) => sum + stage.steps, 0) : (s + segment) * longest;
  const steps = stages.length === 0 ? 0 : segments === 1 ? stepBase(stages.length, 0) : (stages.length + segments - 1) * longest;

  function* program(rank: number): Generator<Instruction> {
    const operations = new Int32Array(lanes.length);
    for (let segment = 0; segment < segments; segment++) {
      // What the next stage has to wait for: the lanes of the last stage in which this rank did something for this segment, which waited in turn.
      let before: { readonly on: number; readonly count: number }[] = [];
      for (let s = 0; s < stages.length; s++) {
        const atStart = operations.slice();
        const started = new Set<number>();
        const firstStep = stepBase(s, segment);
        for (const i of stages[s].instructions(rank, segment)) {
          const lane = laneBase[s] + i.lane;
          const step = firstStep + i.step;
          if (!started.has(lane)) {
            started.add(lane);
            for (const wait of before) yield after({ lane, step, ...wait });
          }
          if (i.op === 'after') {
            const on = laneBase[s] + i.peer;
            yield placed(i, lane, step, on, i.channel, i.count + atStart[on]);
          } else {
            yield placed(i, lane, step, i.peer, i.channel + s * CHANNELS_PER_STAGE, i.count);
            operations[lane]++;
          }
        }
        const did = [...started].filter((lane) => operations[lane] > atStart[lane]);
        if (did.length > 0) before = did.map((on) => ({ on, count: operations[on] }));
      }
    }
  }
  return { lanes, steps, program };
}

/** How a smaller group's schedule stands inside the whole. */
export interface Embedding {
  /** The whole's rank of each of the group's ranks. */
  readonly members: readonly number[];
  /** Chunk c of the group is `width` chunks of the whole from `base + c * width`. Default width 1, base 0. */
  readonly base?: number;
  readonly width?: number;
  /** Buffer of the whole for each buffer of the group. Default: the same ids. */
  readonly buffers?: readonly number[];
  /** Keep `finish` marks: true for the stage in which the last contribution arrives. Default false. */
  readonly finish?: boolean;
}

/** The instructions of the group's member `local`, in terms of the whole. @throws RangeError when a cyclic range would leave its part. */
export function* embed(group: Schedule, local: number, embedding: Embedding): Generator<Instruction> {
  const { members, base = 0, width = 1, buffers, finish = false } = embedding;
  const buffer = (id: number): number => (buffers === undefined ? id : buffers[id]);
  for (const i of group.program(local)) {
    if (i.op === 'after') {
      yield i;
      continue;
    }
    if (i.first + i.count > group.chunks) throw new RangeError(`${group.algorithm} uses cyclic ranges and cannot be embedded`);
    yield {
      op: i.op,
      lane: i.lane,
      step: i.step,
      peer: members[i.peer],
      channel: i.channel,
      buffer: buffer(i.buffer),
      first: base + i.first * width,
      count: i.count * width,
      otherBuffer: buffer(i.otherBuffer),
      otherFirst: base + i.otherFirst * width,
      finish: i.finish && finish,
    };
  }
}

/** The same lanes, known to stay inside a host or to leave it. */
export function withReach(lanes: readonly LaneSpec[], reach: LaneSpec['reach']): LaneSpec[] {
  return lanes.map((lane) => ({ name: `${reach} ${lane.name}`, reach }));
}

/** Stages that run at the same time on disjoint chunks (several rings, several trees). */
export function sideBySide(stages: readonly Stage[]): Staged {
  const lanes = stages.flatMap((stage) => stage.lanes);
  const steps = Math.max(0, ...stages.map((stage) => stage.steps));
  function* program(rank: number): Generator<Instruction> {
    let base = 0;
    for (let s = 0; s < stages.length; s++) {
      for (const i of stages[s].instructions(rank, 0)) {
        if (i.op === 'after') yield placed(i, base + i.lane, i.step, base + i.peer, i.channel, i.count);
        else yield placed(i, base + i.lane, i.step, i.peer, i.channel + s * CHANNELS_PER_STAGE, i.count);
      }
      base += stages[s].lanes.length;
    }
  }
  return { lanes, steps, program };
}

/**
 * The same schedule with rank order[v] in the place of rank v. Where chunks belong to ranks (all-gather, reduce-scatter) they are renamed too, which
 * needs instructions of one chunk each.
 *
 * @throws RangeError when `order` is no permutation, or a range of several chunks would have to be renamed.
 */
export function relabel(schedule: Schedule, order: readonly number[]): Schedule {
  const { size } = schedule;
  const position = new Int32Array(size).fill(-1);
  order.forEach((rank, v) => {
    position[rank] = v;
  });
  if (order.length !== size || position.includes(-1)) throw new RangeError(`order must be a permutation of 0 .. ${size - 1}`);
  if (order.every((rank, v) => rank === v)) return schedule;
  const chunksOfRanks = schedule.collective === 'all-gather' || schedule.collective === 'reduce-scatter';
  const chunk = (c: number, count: number): number => {
    if (!chunksOfRanks) return c;
    if (count > 1) throw new RangeError(`${schedule.algorithm} moves ranges of chunks, so its ranks cannot be reordered`);
    return order[c];
  };
  function* rename(instructions: Iterable<Instruction>): Generator<Instruction> {
    for (const i of instructions) {
      if (i.op === 'after') yield i;
      else yield { ...i, peer: order[i.peer], first: chunk(i.first, i.count), otherFirst: chunk(i.otherFirst, i.count) };
    }
  }
  return {
    ...schedule,
    root: order[schedule.root],
    program: (rank) => rename(schedule.program(position[rank])),
    at: (rank, step) => rename(schedule.at(position[rank], step)),
  };
}
