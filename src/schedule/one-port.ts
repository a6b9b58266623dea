/**
 * Times a schedule in the alpha-beta-gamma model: the model in which cost formulas are written, so a formula can be checked against it.
 *
 * A message of m elements takes alpha + beta m from the moment both sides are ready and both ports are free; a node sends one message and
 * receives one at a time (first come, first served), both at once. Combining m elements takes gamma m of the lane that does it; copying is free. A
 * signal is a message of nothing that need not be awaited. Reading or writing a peer's memory takes beta m of the lane. Lanes that stay inside
 * a host have ports and constants of their own. Switches and servers beyond `size` have as many ports as they need.
 *
 * With alpha = 1 and the rest 0 the result is the number of messages on the critical path; with beta = 1 the bytes; with gamma = 1 the arithmetic.
 */

import { windowOf } from './contract.js';
import { multicastAudience } from './engine.js';
import { isPost, isReduction, isTake } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';
import { rangeLength, type Split } from './split.js';

/** What a message costs on a link, in any unit of time. */
export interface LinkConstants {
  /** Time per message. */
  readonly alpha: number;
  /** Time per element. */
  readonly beta: number;
}

/** The constants of a network in which a rank sends one message and receives one at a time. */
export interface OnePortModel {
  readonly network: LinkConstants;
  /** For lanes with reach `host` or `memory`. Default: as network. */
  readonly host?: LinkConstants;
  /** Time per element combined. Default 0. */
  readonly gamma?: number;
  /** The same for nodes beyond `size`. Default 0: switches add at line rate. */
  readonly helperGamma?: number;
}

interface Lane {
  readonly node: number;
  readonly instructions: Instruction[];
  at: number;
  completed: number;
  readonly waiters: Lane[];
}

interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly duration: number;
  readonly inside: boolean;
  readonly done: (now: number) => void;
}

interface Arrival {
  readonly time: number;
}

/** Time until the last rank is done. @throws Error when the schedule stands still. */
export function onePortTime(schedule: Schedule, split: Split, model: OnePortModel): number {
  return new Simulation(schedule, split, model).run();
}

class Simulation {
  readonly #schedule: Schedule;
  readonly #split: Split;
  readonly #model: OnePortModel;
  readonly #lanes: Lane[][] = [];
  readonly #events = new EventQueue();
  /** Busy ports: node * 2 + inside, for sending and for receiving. */
  readonly #sending: Uint8Array;
  readonly #receiving: Uint8Array;
  readonly #queued = new Map<number, Transfer[]>();
  readonly #posts = new Map<number, { lane: Lane; instruction: Instruction }[]>();
  readonly #takers = new Map<number, Lane>();
  readonly #arrivals = new Map<number, (Arrival | undefined)[]>();
  readonly #audience: Map<number, number[]>;
  #end = 0;

  constructor(schedule: Schedule, split: Split, model: OnePortModel) {
    this.#schedule = schedule;
    this.#split = split;
    this.#model = model;
    this.#sending = new Uint8Array(2 * schedule.nodes);
    this.#receiving = new Uint8Array(2 * schedule.nodes);
    const programs = Array.from({ length: schedule.nodes }, (_, node) => [...schedule.program(node)]);
    this.#audience = multicastAudience(programs);
    for (let node = 0; node < schedule.nodes; node++) {
      const own: Lane[] = schedule.lanes.map(() => ({ node, instructions: [], at: 0, completed: 0, waiters: [] }));
      for (const i of programs[node]) own[i.lane].instructions.push(i);
      this.#lanes.push(own);
    }
  }

  run(): number {
    for (const own of this.#lanes) for (const lane of own) this.#events.add(0, (now) => this.#advance(lane, now));
    this.#events.drain();
    for (const own of this.#lanes) {
      for (const lane of own)
        if (lane.at < lane.instructions.length) throw new Error(`${this.#schedule.algorithm} stands still at node ${lane.node}`);
    }
    return this.#end;
  }

  #advance(lane: Lane, now: number): void {
    if (lane.at >= lane.instructions.length) return;
    const i = lane.instructions[lane.at];
    if (i.op === 'after') {
      const other = this.#lanes[lane.node][i.peer];
      if (other.completed < i.count) other.waiters.push(lane);
      else {
        lane.at++;
        this.#advance(lane, now);
      }
    } else if (isPost(i.op)) this.#post(lane, i, now);
    else if (isTake(i.op)) this.#take(lane, i, now);
    else this.#completeAt(lane, now + this.#localTime(i));
  }

  #localTime(i: Instruction): number {
    const elements = rangeLength(this.#split, i.first, i.count);
    const link = this.#model.host ?? this.#model.network;
    const move = i.op === 'copy' || i.op === 'reduce' ? 0 : link.beta * elements;
    return move + (isReduction(i.op) ? (this.#model.gamma ?? 0) * elements : 0);
  }

  #completeAt(lane: Lane, time: number): void {
    this.#events.add(time, (now) => {
      this.#end = Math.max(this.#end, now);
      lane.at++;
      lane.completed++;
      for (const waiter of lane.waiters.splice(0)) this.#advance(waiter, now);
      this.#advance(lane, now);
    });
  }

  #post(lane: Lane, i: Instruction, now: number): void {
    if (i.op === 'multicast') {
      const duration = this.#duration(lane.node, i);
      for (const to of this.#audience.get(lane.node * 256 + i.channel) ?? [])
        this.#arrive(lane.node, to, i.channel, now + duration);
      this.#completeAt(lane, now + duration);
      return;
    }
    if (i.op === 'signal' || i.peer >= this.#schedule.size) {
      // Buffered at the receiver: the transfer does not wait for the take.
      this.#start({
        from: lane.node,
        to: i.peer,
        duration: this.#duration(lane.node, i),
        inside: this.#inside(i),
        done: (end) => {
          this.#arrive(lane.node, i.peer, i.channel, end);
          this.#completeAt(lane, end);
        },
      });
      return;
    }
    const key = this.#key(lane.node, i.peer, i.channel);
    const taker = this.#takers.get(key);
    if (taker === undefined) {
      const waiting = this.#posts.get(key);
      if (waiting === undefined) this.#posts.set(key, [{ lane, instruction: i }]);
      else waiting.push({ lane, instruction: i });
      return;
    }
    this.#takers.delete(key);
    this.#transfer(lane, i, taker);
  }

  #take(lane: Lane, i: Instruction, now: number): void {
    const key = this.#key(i.peer, lane.node, i.channel);
    const arrived = this.#arrivals.get(key)?.shift();
    if (arrived !== undefined) {
      this.#completeAt(lane, Math.max(now, arrived.time) + this.#combining(lane.node, i));
      return;
    }
    const post = this.#posts.get(key)?.shift();
    if (post === undefined) this.#takers.set(key, lane);
    else this.#transfer(post.lane, post.instruction, lane);
  }

  #transfer(sender: Lane, i: Instruction, taker: Lane): void {
    const take = taker.instructions[taker.at];
    this.#start({
      from: sender.node,
      to: taker.node,
      duration: this.#duration(sender.node, i),
      inside: this.#inside(i),
      done: (end) => {
        this.#completeAt(sender, end);
        this.#completeAt(taker, end + this.#combining(taker.node, take));
      },
    });
  }

  /** Something for `to` is there at `time` without a take having been asked for. */
  #arrive(from: number, to: number, channel: number, time: number): void {
    const key = this.#key(from, to, channel);
    const taker = this.#takers.get(key);
    if (taker !== undefined) {
      this.#takers.delete(key);
      this.#completeAt(taker, time + this.#combining(to, taker.instructions[taker.at]));
      return;
    }
    const waiting = this.#arrivals.get(key);
    if (waiting === undefined) this.#arrivals.set(key, [{ time }]);
    else waiting.push({ time });
  }

  #start(transfer: Transfer): void {
    const [out, into] = this.#ports(transfer);
    const busy = this.#sending[out] ? out : this.#receiving[into] ? -1 - into : undefined;
    if (busy !== undefined) {
      const queue = this.#queued.get(busy);
      if (queue === undefined) this.#queued.set(busy, [transfer]);
      else queue.push(transfer);
      return;
    }
    const limited = { out: transfer.from < this.#schedule.size, into: transfer.to < this.#schedule.size };
    if (limited.out) this.#sending[out] = 1;
    if (limited.into) this.#receiving[into] = 1;
    this.#events.add(this.#events.now + transfer.duration, (now) => {
      this.#sending[out] = 0;
      this.#receiving[into] = 0;
      transfer.done(now);
      this.#release(out);
      this.#release(-1 - into);
    });
  }

  #release(port: number): void {
    const queue = this.#queued.get(port);
    if (queue === undefined) return;
    this.#queued.delete(port);
    for (const transfer of queue) this.#start(transfer);
  }

  #ports({ from, to, inside }: Transfer): [number, number] {
    const kind = inside ? 1 : 0;
    return [2 * from + kind, 2 * to + kind];
  }

  #inside(i: Instruction): boolean {
    const { reach } = this.#schedule.lanes[i.lane];
    return reach === 'host' || reach === 'memory';
  }

  #duration(node: number, i: Instruction): number {
    const link = this.#inside(i) ? (this.#model.host ?? this.#model.network) : this.#model.network;
    if (i.count === 0) return link.alpha;
    const elements = windowOf(this.#schedule, i.buffer, node).count === 0 ? 0 : rangeLength(this.#split, i.first, i.count);
    return link.alpha + link.beta * elements;
  }

  #combining(node: number, take: Instruction): number {
    if (take.op !== 'receiveReduce') return 0;
    const gamma = node < this.#schedule.size ? this.#model.gamma : this.#model.helperGamma;
    return (gamma ?? 0) * rangeLength(this.#split, take.first, take.count);
  }

  #key(from: number, to: number, channel: number): number {
    return (from * this.#schedule.nodes + to) * 256 + channel;
  }
}

/** Events in order of time, and of arrival at the same time: a binary heap. */
class EventQueue {
  readonly #heap: { time: number; order: number; run: (now: number) => void }[] = [];
  #order = 0;
  now = 0;

  add(time: number, run: (now: number) => void): void {
    const heap = this.#heap;
    const event = { time, order: this.#order++, run };
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(event, heap[parent])) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = event;
  }

  drain(): void {
    for (let event = this.#pop(); event !== undefined; event = this.#pop()) {
      this.now = event.time;
      event.run(event.time);
    }
  }

  #pop(): { time: number; order: number; run: (now: number) => void } | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (!before(heap[child], last)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function before(a: { time: number; order: number }, b: { time: number; order: number }): boolean {
  return a.time < b.time || (a.time === b.time && a.order < b.order);
}
