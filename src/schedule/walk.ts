/**
 * Walks a schedule and counts: rounds, messages, traffic per node, the peak of a node in one round, fan-in (incast).
 *
 * Traffic is in elements of the split handed in; split bytes to get bytes. Only messages and accesses to peers' memory count as traffic, local
 * copies do not. Nodes are walked one after the other, so memory is one row of rounds; steps that the schedule calls alike are walked once and
 * multiplied, which keeps 16,384 ranks cheap (and then counts are those of the first such step).
 */

import { isPost, isReduction, isTake } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';
import { rangeLength, type Split } from './split.js';

/** What one node does altogether. */
export interface NodeWalk {
  messagesSent: number;
  messagesReceived: number;
  sent: number;
  received: number;
  reduced: number;
  /** Moved by read, readReduce and write. */
  accessed: number;
}

export interface Walk {
  /** Step labels in use. */
  readonly rounds: number;
  /** Messages of all nodes together, signals included. */
  readonly messages: number;
  /** Elements sent or accessed by all nodes together. */
  readonly traffic: number;
  /** The largest value over nodes, field by field. */
  readonly busiest: NodeWalk;
  /** Most elements that one node sends, or receives, or accesses in one round. */
  readonly peakPerRound: number;
  /** Most different nodes that send to one node in one round. 1: no incast. */
  readonly fanIn: number;
}

export interface WalkOptions {
  /** Walk every step, also those alike. Default false. */
  readonly everyStep?: boolean;
}

interface Round {
  sent: number;
  received: number;
  accessed: number;
  readonly senders: Set<number>;
}

/** Counts over all nodes of the schedule. */
export function walkSchedule(schedule: Schedule, split: Split, options: WalkOptions = {}): Walk {
  const classes = stepClasses(schedule, options.everyStep ?? false);
  const busiest = emptyNode();
  let [messages, traffic, peakPerRound, fanIn] = [0, 0, 0, 0];
  for (let node = 0; node < schedule.nodes; node++) {
    const total = emptyNode();
    const visit = (instructions: Iterable<Instruction>, times: number): void => {
      const rounds = new Map<number, Round>();
      for (const i of instructions) count(i, split, total, roundOf(rounds, i.step), times);
      for (const round of rounds.values()) {
        peakPerRound = Math.max(peakPerRound, round.sent, round.received, round.accessed);
        fanIn = Math.max(fanIn, round.senders.size);
      }
    };
    if (classes === undefined) visit(schedule.program(node), 1);
    else for (const { step, times } of classes) visit(schedule.at(node, step), times);
    messages += total.messagesSent;
    traffic += total.sent + total.accessed;
    for (const key of Object.keys(busiest) as (keyof NodeWalk)[]) busiest[key] = Math.max(busiest[key], total[key]);
  }
  return { rounds: schedule.steps, messages, traffic, busiest, peakPerRound, fanIn };
}

/** One step of each kind and how many there are; undefined when all are different. */
function stepClasses(schedule: Schedule, everyStep: boolean): { step: number; times: number }[] | undefined {
  if (everyStep) return undefined;
  const classes = new Map<number, { step: number; times: number }>();
  for (let step = 0; step < schedule.steps; step++) {
    const known = classes.get(schedule.alike(step));
    if (known === undefined) classes.set(schedule.alike(step), { step, times: 1 });
    else known.times++;
  }
  return classes.size === schedule.steps ? undefined : [...classes.values()];
}

function roundOf(rounds: Map<number, Round>, step: number): Round {
  let round = rounds.get(step);
  if (round === undefined) {
    round = { sent: 0, received: 0, accessed: 0, senders: new Set() };
    rounds.set(step, round);
  }
  return round;
}

function count(i: Instruction, split: Split, total: NodeWalk, round: Round, times: number): void {
  if (i.op === 'after') return;
  const elements = i.count === 0 ? 0 : rangeLength(split, i.first, i.count);
  if (isPost(i.op)) {
    total.messagesSent += times;
    total.sent += times * elements;
    round.sent += elements;
  } else if (isTake(i.op)) {
    total.messagesReceived += times;
    total.received += times * elements;
    round.received += elements;
    round.senders.add(i.peer);
  } else if (i.op !== 'copy' && i.op !== 'reduce') {
    total.accessed += times * elements;
    round.accessed += elements;
  }
  if (isReduction(i.op)) total.reduced += times * elements;
}

function emptyNode(): NodeWalk {
  return { messagesSent: 0, messagesReceived: 0, sent: 0, received: 0, reduced: 0, accessed: 0 };
}
