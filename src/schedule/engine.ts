/**
 * Runs all programs of a schedule together in one process, without time: lanes in order, `after`s held, posts met by takes.
 *
 * What the instructions MEAN is the visitor's business: the prover moves symbols, the interpreter moves numbers. The order in which ready
 * lanes run is a parameter, so that a seed can try many of them; a correct schedule gives the same result in each.
 *
 * `sends: 'rendezvous'` lets a send complete only when its receive takes it (the order that deadlocks most), `'eager'` at once (the order that
 * races most). Signals and multicasts never wait.
 */

import { isPost, isTake } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';

/** What is done with the operations of a run, one by one. */
export interface Visitor<Payload> {
  /** A send, multicast or signal starts at `node`: returns what travels. */
  post(node: number, instruction: Instruction): Payload;
  /** A take at `node` meets the post `sent` of `sender`. */
  take(node: number, instruction: Instruction, payload: Payload, sender: number, sent: Instruction): void;
  /** copy, reduce, read, readReduce or write. */
  move(node: number, instruction: Instruction): void;
  /** An `after` passed. */
  passed?(node: number, instruction: Instruction): void;
  /** An operation completed as the `position`-th of its lane (counted from 0, `after`s not counted). */
  completed?(node: number, instruction: Instruction, position: number): void;
}

export interface RunOptions {
  /** Default 'rendezvous'. */
  readonly sends?: 'eager' | 'rendezvous';
  /** Picks one of n ready lanes, 0 .. n - 1. Default: the last, which is the cheapest. */
  readonly choose?: (n: number) => number;
}

/** A lane that could not finish, and the instruction it stands at. */
export interface Stuck {
  readonly node: number;
  readonly instruction: Instruction;
}

/** What is left when no rank can go on. */
export interface RunOutcome {
  /** Empty when every lane ran to its end. */
  readonly stuck: readonly Stuck[];
  /** Posts nobody took: sender, post, addressee. */
  readonly unmatched: readonly { readonly node: number; readonly instruction: Instruction; readonly to: number }[];
}

interface Lane {
  readonly node: number;
  readonly instructions: Instruction[];
  at: number;
  completed: number;
  /** Lanes of the same node that stand at an `after` on this one. */
  readonly waiters: Lane[];
}

interface Posted<Payload> {
  readonly payload: Payload;
  readonly instruction: Instruction;
  readonly lane: Lane;
  readonly to: number;
}

interface Stream<Payload> {
  readonly posts: Posted<Payload>[];
  head: number;
  taker: Lane | undefined;
}

/** Runs a schedule to its end or to a standstill. */
export function runSchedule<Payload>(schedule: Schedule, visitor: Visitor<Payload>, options: RunOptions = {}): RunOutcome {
  const { nodes } = schedule;
  const rendezvous = (options.sends ?? 'rendezvous') === 'rendezvous';
  const choose = options.choose ?? ((n: number) => n - 1);
  const lanes: Lane[][] = [];
  const ready: Lane[] = [];
  const streams = new Map<number, Stream<Payload>>();
  const programs = Array.from({ length: nodes }, (_, node) => [...schedule.program(node)]);
  const audience = multicastAudience(programs);

  for (let node = 0; node < nodes; node++) {
    const own: Lane[] = schedule.lanes.map(() => ({ node, instructions: [], at: 0, completed: 0, waiters: [] }));
    for (const i of programs[node]) own[i.lane].instructions.push(i);
    lanes.push(own);
    for (const lane of own) if (lane.instructions.length > 0) ready.push(lane);
  }

  const stream = (from: number, to: number, channel: number): Stream<Payload> => {
    const key = (from * nodes + to) * 256 + channel;
    let s = streams.get(key);
    if (s === undefined) {
      s = { posts: [], head: 0, taker: undefined };
      streams.set(key, s);
    }
    return s;
  };

  const complete = (lane: Lane): void => {
    visitor.completed?.(lane.node, lane.instructions[lane.at], lane.completed);
    lane.at++;
    lane.completed++;
    if (lane.at < lane.instructions.length) ready.push(lane);
    if (lane.waiters.length > 0) ready.push(...lane.waiters.splice(0));
  };

  const deliver = (taker: Lane, posted: Posted<Payload>): void => {
    visitor.take(taker.node, taker.instructions[taker.at], posted.payload, posted.lane.node, posted.instruction);
    if (rendezvous && posted.instruction.op === 'send') complete(posted.lane);
    complete(taker);
  };

  const post = (lane: Lane, i: Instruction, to: number, payload: Payload): void => {
    const s = stream(lane.node, to, i.channel);
    const posted = { payload, instruction: i, lane, to };
    if (s.taker === undefined) s.posts.push(posted);
    else {
      const taker = s.taker;
      s.taker = undefined;
      deliver(taker, posted);
    }
  };

  while (ready.length > 0) {
    const index = choose(ready.length);
    const lane = ready[index];
    ready[index] = ready[ready.length - 1];
    ready.pop();
    const i = lane.instructions[lane.at];
    if (i.op === 'after') {
      const other = lanes[lane.node][i.peer];
      if (other.completed < i.count) other.waiters.push(lane);
      else {
        visitor.passed?.(lane.node, i);
        lane.at++;
        if (lane.at < lane.instructions.length) ready.push(lane);
      }
    } else if (isPost(i.op)) {
      const payload = visitor.post(lane.node, i);
      if (i.op === 'multicast') for (const to of audience.get(lane.node * 256 + i.channel) ?? []) post(lane, i, to, payload);
      else post(lane, i, i.peer, payload);
      if (!rendezvous || i.op !== 'send') complete(lane);
    } else if (isTake(i.op)) {
      const s = stream(i.peer, lane.node, i.channel);
      if (s.head < s.posts.length) deliver(lane, s.posts[s.head++]);
      else s.taker = lane;
    } else {
      visitor.move(lane.node, i);
      complete(lane);
    }
  }

  const stuck: Stuck[] = [];
  for (const own of lanes) {
    for (const lane of own)
      if (lane.at < lane.instructions.length) stuck.push({ node: lane.node, instruction: lane.instructions[lane.at] });
  }
  const unmatched: RunOutcome['unmatched'][number][] = [];
  for (const s of streams.values()) {
    for (const posted of s.posts.slice(s.head))
      unmatched.push({ node: posted.lane.node, instruction: posted.instruction, to: posted.to });
  }
  return { stuck, unmatched };
}

/** Who takes from each stream into which somebody multicasts; keyed by sender * 256 + channel. `programs` is indexed by node. */
export function multicastAudience(programs: readonly (readonly Instruction[])[]): Map<number, number[]> {
  const takers = new Map<number, number[]>();
  for (let node = 0; node < programs.length; node++) {
    for (const i of programs[node]) if (i.op === 'multicast') takers.set(node * 256 + i.channel, []);
  }
  if (takers.size === 0) return takers;
  for (let node = 0; node < programs.length; node++) {
    for (const i of programs[node]) {
      const list = isTake(i.op) ? takers.get(i.peer * 256 + i.channel) : undefined;
      if (list !== undefined && list.at(-1) !== node) list.push(node);
    }
  }
  return takers;
}
