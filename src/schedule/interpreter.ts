/**
 * Runs a schedule on real numbers, all ranks in one process: the plain reference for every executor.
 *
 * It is slow and simple on purpose. Sends may capture their data at once (`eager`) or when taken (`rendezvous`), and a seed may pick the order of
 * ready lanes; a schedule that the prover accepts gives the same bits in every mode. It counts what it moves, per node.
 */

import { windowOf } from './contract.js';
import { type RunOptions, runSchedule } from './engine.js';
import { isReduction } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';
import { evenSplit, pieces, type Split, windowLength } from './split.js';

/** Element storage the interpreter can work on. */
export type Vector = Float64Array | Float32Array | Int32Array | Uint8Array;

/** One node's buffers, by id, and how each is cut into chunks. */
export interface NodeMemory {
  readonly buffers: Vector[];
  readonly splits: readonly Split[];
}

export interface InterpretOptions extends RunOptions {
  /** Combines two elements. Default: addition. */
  readonly combine?: (own: number, other: number) => number;
  /** Applied once to each combined element where the schedule says `finish` (avg: divide by size). Default: nothing. */
  readonly finish?: (value: number) => number;
}

/** What one node did. Elements, not bytes; signals and waits are messages of no elements. */
export interface Counters {
  messagesSent: number;
  elementsSent: number;
  messagesReceived: number;
  elementsReceived: number;
  /** Elements combined. */
  elementsReduced: number;
  /** Elements read from or written to a peer's memory by this node. */
  elementsAccessed: number;
  elementsCopied: number;
}

/** Zeroed memory for every node, all buffers cut by the even rule. */
export function allocateMemory(
  schedule: Schedule,
  elements: number,
  make: (length: number) => Vector = (n) => new Float64Array(n),
): NodeMemory[] {
  const split = evenSplit(elements, schedule.chunks);
  return Array.from({ length: schedule.nodes }, (_, node) => ({
    buffers: schedule.buffers.map((_, id) => make(windowLength(split, windowOf(schedule, id, node)))),
    splits: schedule.buffers.map(() => split),
  }));
}

/** Runs the schedule on `memory`, in place. @throws Error when it stands still or leaves messages, RangeError when lengths disagree. */
export function interpret(schedule: Schedule, memory: readonly NodeMemory[], options: InterpretOptions = {}): Counters[] {
  const combine = options.combine ?? ((a, b) => a + b);
  const finish = options.finish ?? ((value) => value);
  const late = options.sends !== 'eager';
  const counters: Counters[] = memory.map(() => ({
    messagesSent: 0,
    elementsSent: 0,
    messagesReceived: 0,
    elementsReceived: 0,
    elementsReduced: 0,
    elementsAccessed: 0,
    elementsCopied: 0,
  }));

  const views = (owner: number, id: number, first: number, count: number): Vector[] => {
    const { buffers, splits } = memory[owner];
    return pieces(splits[id], windowOf(schedule, id, owner), first, count).map((p) =>
      buffers[id].subarray(p.offset, p.offset + p.length),
    );
  };

  const store = (i: Instruction, target: Vector[], source: Vector[]): number => {
    let elements = 0;
    for (let p = 0; p < target.length; p++) {
      const [to, from] = [target[p], source[p]];
      if (from === undefined || from.length !== to.length)
        throw new RangeError(`${i.op} of ${from?.length} elements into ${to.length} (step ${i.step})`);
      elements += to.length;
      if (!isReduction(i.op)) to.set(from);
      else
        for (let e = 0; e < to.length; e++) {
          to[e] = combine(to[e], from[e]);
          if (i.finish) to[e] = finish(to[e]);
        }
    }
    return elements;
  };

  const outcome = runSchedule<Vector[]>(
    schedule,
    {
      post(node, i) {
        counters[node].messagesSent++;
        if (i.op === 'signal') return [];
        const source = views(node, i.buffer, i.first, i.count);
        counters[node].elementsSent += source.reduce((sum, view) => sum + view.length, 0);
        return late && i.op === 'send' ? source : source.map((view) => view.slice());
      },
      take(node, i, payload) {
        counters[node].messagesReceived++;
        if (i.op === 'wait') return;
        const elements = store(i, views(node, i.buffer, i.first, i.count), payload);
        counters[node].elementsReceived += elements;
        if (i.op === 'receiveReduce') counters[node].elementsReduced += elements;
      },
      move(node, i) {
        const own = views(node, i.buffer, i.first, i.count);
        const other = views(i.peer, i.otherBuffer, i.otherFirst, i.count);
        const elements = i.op === 'write' ? store(i, other, own) : store(i, own, other);
        if (i.op === 'copy') counters[node].elementsCopied += elements;
        if (isReduction(i.op)) counters[node].elementsReduced += elements;
        if (i.op === 'read' || i.op === 'readReduce' || i.op === 'write') counters[node].elementsAccessed += elements;
      },
    },
    options,
  );
  if (outcome.stuck.length > 0)
    throw new Error(`${schedule.collective}:${schedule.algorithm} stands still at ${JSON.stringify(outcome.stuck[0])}`);
  if (outcome.unmatched.length > 0)
    throw new Error(`${schedule.collective}:${schedule.algorithm} leaves ${JSON.stringify(outcome.unmatched[0])}`);
  return counters;
}
