/**
 * The traffic of one step of a schedule: which messages travel, and what is combined where. The one place that knows how instructions become bytes.
 */
import { isTake } from '../../schedule/instruction.js';
import type { Instruction, Schedule } from '../../schedule/schedule.js';
import { evenSplit, rangeLength, type Split } from '../../schedule/split.js';

/** A schedule with a size in bytes. */
export interface Workload {
  readonly schedule: Schedule;
  /** n: bytes of the whole vector, as the schedule's collective counts it. */
  readonly bytes: number;
  /** Bytes per element. Default 4. */
  readonly elementBytes?: number;
}

/** Messages of one step, as parallel lists. */
export interface StepTraffic {
  readonly from: number[];
  readonly to: number[];
  readonly bytes: number[];
  /** Messages that are one multicast carry the same number >= 0; -1 elsewhere. */
  readonly cast: number[];
  /** Bytes combined or copied, per node, where not zero. */
  readonly work: Map<number, number>;
}

export class TrafficReader {
  readonly schedule: Schedule;
  readonly #split: Split;
  readonly #elementBytes: number;
  #audience: Map<number, number[]> | undefined;

  constructor({ schedule, bytes, elementBytes = 4 }: Workload) {
    this.schedule = schedule;
    this.#elementBytes = elementBytes;
    this.#split = evenSplit(Math.ceil(bytes / elementBytes), schedule.chunks);
  }

  bytesOf(instruction: Instruction): number {
    if (instruction.op === 'after' || instruction.count === 0) return 0;
    return rangeLength(this.#split, instruction.first, instruction.count) * this.#elementBytes;
  }

  /** Those who take from the multicasts of a node on a channel. The programs are searched at the first question, since few schedules multicast. */
  audience(node: number, channel: number): readonly number[] {
    this.#audience ??= findTakers(this.schedule);
    return this.#audience.get(node * 256 + channel) ?? [];
  }

  /** All messages of one step. */
  step(step: number): StepTraffic {
    const traffic = emptyTraffic();
    for (let node = 0; node < this.schedule.nodes; node++) {
      for (const instruction of this.schedule.at(node, step)) this.add(traffic, node, instruction);
    }
    return traffic;
  }

  /** Every step at once: one walk over each program, for schedules that cannot give single steps cheaply. */
  steps(): StepTraffic[] {
    const all = Array.from({ length: this.schedule.steps }, emptyTraffic);
    for (let node = 0; node < this.schedule.nodes; node++) {
      for (const instruction of this.schedule.program(node)) this.add(all[instruction.step], node, instruction);
    }
    return all;
  }

  add(traffic: StepTraffic, node: number, instruction: Instruction): void {
    const bytes = this.bytesOf(instruction);
    const message = (from: number, to: number, cast = -1): void => {
      traffic.from.push(from);
      traffic.to.push(to);
      traffic.bytes.push(bytes);
      traffic.cast.push(cast);
    };
    const work = (): void => {
      traffic.work.set(node, (traffic.work.get(node) ?? 0) + bytes);
    };
    switch (instruction.op) {
      case 'send':
      case 'write':
      case 'signal':
        message(node, instruction.peer);
        break;
      case 'multicast':
        for (const to of this.audience(node, instruction.channel)) message(node, to, node);
        break;
      case 'read':
        message(instruction.peer, node);
        break;
      case 'readReduce':
        message(instruction.peer, node);
        work();
        break;
      case 'receiveReduce':
      case 'copy':
      case 'reduce':
        work();
        break;
      default:
        break;
    }
  }
}

/** Nodes by the stream they take from, keyed by sender * 256 + channel. */
function findTakers(schedule: Schedule): Map<number, number[]> {
  const takers = new Map<number, number[]>();
  for (let node = 0; node < schedule.nodes; node++) {
    for (const { op, peer, channel } of schedule.program(node)) {
      if (!isTake(op)) continue;
      const known = takers.get(peer * 256 + channel);
      if (known === undefined) takers.set(peer * 256 + channel, [node]);
      else if (known[known.length - 1] !== node) known.push(node);
    }
  }
  return takers;
}

function emptyTraffic(): StepTraffic {
  return { from: [], to: [], bytes: [], cast: [], work: new Map() };
}

/**
 * The distinct patterns of a schedule: one representative step each, and how often it occurs. Steps that the schedule calls alike have the same
 * messages, but may differ in whether they combine (the two halves of a ring do); the first and the last rank show which.
 */
function stepPatterns(schedule: Schedule): { step: number; count: number }[] {
  const seen = new Map<string, { step: number; count: number }>();
  const combines = (rank: number, step: number): boolean => {
    for (const { op } of schedule.at(rank, step))
      if (op === 'receiveReduce' || op === 'readReduce' || op === 'reduce') return true;
    return false;
  };
  const repeats = new Set(Array.from({ length: schedule.steps }, (_, step) => schedule.alike(step))).size < schedule.steps;
  for (let step = 0; step < schedule.steps; step++) {
    const work = repeats ? `${combines(0, step)}${combines(schedule.size - 1, step)}` : '';
    const pattern = `${schedule.alike(step)}${work}`;
    const known = seen.get(pattern);
    if (known === undefined) seen.set(pattern, { step, count: 1 });
    else known.count++;
  }
  return [...seen.values()];
}

/** Traffic of every distinct pattern with its count, read in the cheaper of the two ways. */
export function* patternTraffic(workload: Workload): Generator<{ step: number; count: number; traffic: StepTraffic }> {
  const reader = new TrafficReader(workload);
  const patterns = stepPatterns(workload.schedule);
  if (patterns.length < workload.schedule.steps || workload.schedule.steps <= 2) {
    for (const pattern of patterns) yield { ...pattern, traffic: reader.step(pattern.step) };
  } else {
    const all = reader.steps();
    for (const pattern of patterns) yield { ...pattern, traffic: all[pattern.step] };
  }
}
