/**
 * The prover: shows by symbolic execution that a schedule keeps its collective's contract, for a given number of ranks.
 *
 * What is shown, and how:
 *  1. Shape: each instruction makes sense (`well-formed.ts`).
 *  2. No cycle of waits. All programs run together while every send waits for its receive. Streams are first-in-first-out and nothing is
 *     chosen at run time, so if this order finishes, every order does, and more buffering only helps.
 *  3. Sends match receives: nothing is left over; kinds, chunk counts and (of data) step labels agree.
 *  4. Each contribution exactly once. Chunks carry the set of ranks combined in them; reducing overlapping sets or different chunks is an
 *     error, as is relying on a content nobody wrote; at the end the contract's contents must be there, finished once.
 *  5. No race. Vector clocks over all lanes hold what has surely completed before an operation starts, assuming the LEAST a network
 *     gives: a receive tells only that its send had started. Every pair of conflicting accesses to a chunk (own, or a
 *     peer's by read or write) must be ordered by them. So nothing is read before it is written, or overwritten while in flight,
 *     in any execution, not only in the one that was run; nor may a rank leave while a peer is still at its memory.
 *
 * It works on chunks, so its verdict holds for every element count; that empty and uneven chunks are handled is shown by the interpreter.
 */

import { type Content, everyone, finalContent, initialContent, windowOf } from './contract.js';
import { runSchedule } from './engine.js';
import { describeInstruction, isReduction } from './instruction.js';
import type { Instruction, Schedule } from './schedule.js';
import { checkShape, type Flaw } from './well-formed.js';

/** What symbolic execution has found. */
export interface Proof {
  readonly ok: boolean;
  /** Empty when ok; at most `limit`. */
  readonly flaws: readonly Flaw[];
  /** Operations executed. */
  readonly operations: number;
}

/** @param limit how many flaws to collect before giving up. Default 8. */
export function proveSchedule(schedule: Schedule, limit = 8): Proof {
  const flaws: Flaw[] = [];
  const programs = Array.from({ length: schedule.nodes }, (_, node) => [...schedule.program(node)]);
  const made: Schedule = { ...schedule, program: (node) => programs[node] };
  const operations = checkShape(made, flaws, limit);
  if (flaws.length === 0) new Execution(made, flaws, limit).run();
  return { ok: flaws.length === 0, flaws, operations };
}

/** Accesses to one chunk of one buffer since its last write, as lane index and position in the lane. */
interface History {
  content: Content | undefined;
  writeLane: number;
  writePosition: number;
  readLanes: number[];
  readPositions: number[];
}

interface Travel {
  readonly contents: (Content | undefined)[];
  readonly clock: Int32Array;
}

class Execution {
  readonly #schedule: Schedule;
  readonly #flaws: Flaw[];
  readonly #limit: number;
  readonly #all: bigint;
  readonly #width: number;
  /** Per lane: entries 0 .. lanes-1 operations known complete, then one entry per node: known to have entered. */
  readonly #clocks: Int32Array[] = [];
  readonly #positions: Int32Array;
  /** Clocks kept for `after`s: per lane, completed count -> clock. Only counts somebody waits for, until the last has passed. */
  readonly #kept: Map<number, Int32Array>[] = [];
  readonly #wanted: Map<number, number>[] = [];
  readonly #memory: History[][][] = [];
  /** Clocks no longer needed; there are as many in use as messages in flight, but one per operation passes through. */
  readonly #spare: Int32Array[] = [];

  constructor(schedule: Schedule, flaws: Flaw[], limit: number) {
    this.#schedule = schedule;
    this.#flaws = flaws;
    this.#limit = limit;
    this.#all = everyone(schedule.contributions);
    this.#width = schedule.lanes.length;
    const lanes = schedule.nodes * this.#width;
    this.#positions = new Int32Array(lanes);
    for (let node = 0; node < schedule.nodes; node++) {
      for (let lane = 0; lane < this.#width; lane++) {
        const clock = new Int32Array(lanes + schedule.nodes);
        clock[lanes + node] = 1;
        this.#clocks.push(clock);
        this.#kept.push(new Map());
        this.#wanted.push(new Map());
      }
      for (const i of schedule.program(node)) {
        if (i.op !== 'after') continue;
        const wanted = this.#wanted[node * this.#width + i.peer];
        wanted.set(i.count, (wanted.get(i.count) ?? 0) + 1);
      }
      this.#memory.push(schedule.buffers.map((_, id) => this.#chunksOf(node, id)));
    }
  }

  #chunksOf(node: number, id: number): History[] {
    const { chunks } = this.#schedule;
    const window = windowOf(this.#schedule, id, node);
    const list: History[] = [];
    for (let k = 0; k < window.count; k++) {
      const c = (window.first + k) % chunks;
      list[c] = {
        content: initialContent(this.#schedule, node, id, c),
        writeLane: -1,
        writePosition: 0,
        readLanes: [],
        readPositions: [],
      };
    }
    return list;
  }

  run(): void {
    const outcome = runSchedule<Travel>(this.#schedule, {
      post: (node, i) => ({
        contents: isEmpty(i) ? [] : this.#read(node, i, node, i.buffer, i.first),
        clock: this.#snapshot(this.#clockOf(node, i)),
      }),
      take: (node, i, travel, sender, sent) => this.#take(node, i, travel, sender, sent),
      move: (node, i) => this.#move(node, i),
      passed: (node, i) => this.#passed(node, i),
      completed: (node, i, position) => this.#completed(node, i, position),
    });
    for (const { node, instruction } of outcome.stuck) this.#flaw('stuck', node, instruction, 'never completes');
    for (const { node, instruction, to } of outcome.unmatched)
      this.#flaw('unmatched', node, instruction, `nobody takes it at ${to}`);
    if (this.#flaws.length === 0) this.#checkResult();
  }

  #clockOf(node: number, i: Instruction): Int32Array {
    return this.#clocks[node * this.#width + i.lane];
  }

  #snapshot(clock: Int32Array): Int32Array {
    const copy = this.#spare.pop() ?? new Int32Array(clock.length);
    copy.set(clock);
    return copy;
  }

  #flaw(kind: Flaw['kind'], node: number, i: Instruction, text: string): void {
    if (this.#flaws.length < this.#limit) this.#flaws.push({ kind, text: `${describeInstruction(node, i)}: ${text}` });
  }

  #completed(node: number, i: Instruction, position: number): void {
    const lane = node * this.#width + i.lane;
    this.#positions[lane] = position + 1;
    this.#clocks[lane][lane] = position + 1;
    if (this.#wanted[lane].has(position + 1)) this.#kept[lane].set(position + 1, this.#snapshot(this.#clocks[lane]));
  }

  #passed(node: number, i: Instruction): void {
    const lane = node * this.#width + i.peer;
    const known = this.#kept[lane].get(i.count);
    if (known === undefined) return;
    join(this.#clockOf(node, i), known);
    const waiting = (this.#wanted[lane].get(i.count) ?? 1) - 1;
    this.#wanted[lane].set(i.count, waiting);
    if (waiting > 0) return;
    this.#kept[lane].delete(i.count);
    this.#spare.push(known);
  }

  #take(node: number, i: Instruction, travel: Travel, sender: number, sent: Instruction): void {
    if (isEmpty(i) !== isEmpty(sent) || (!isEmpty(i) && i.step !== sent.step))
      this.#flaw('mismatch', node, i, `meets ${describeInstruction(sender, sent)}`);
    else if (!isEmpty(i)) {
      const wraps = Math.max(i.first, sent.first) + i.count > this.#schedule.chunks;
      if (i.count !== sent.count || (wraps && i.first !== sent.first))
        this.#flaw('mismatch', node, i, `meets ${describeInstruction(sender, sent)}`);
      else this.#store(node, i, node, i.buffer, i.first, travel.contents);
    }
    join(this.#clockOf(node, i), travel.clock);
    if (sent.op !== 'multicast') this.#spare.push(travel.clock);
  }

  #move(node: number, i: Instruction): void {
    if (i.op === 'write') this.#store(node, i, i.peer, i.otherBuffer, i.otherFirst, this.#read(node, i, node, i.buffer, i.first));
    else this.#store(node, i, node, i.buffer, i.first, this.#read(node, i, i.peer, i.otherBuffer, i.otherFirst));
  }

  #read(node: number, i: Instruction, owner: number, id: number, first: number): (Content | undefined)[] {
    const contents: (Content | undefined)[] = [];
    for (let k = 0; k < i.count; k++) {
      const chunk = (first + k) % this.#schedule.chunks;
      const place = this.#memory[owner][id][chunk];
      this.#orderAfterWrite(node, i, place, owner, chunk);
      place.readLanes.push(node * this.#width + i.lane);
      place.readPositions.push(this.#positions[node * this.#width + i.lane]);
      if (place.content === undefined)
        this.#flaw('content', node, i, `reads chunk ${chunk} of ${this.#name(id)} of ${owner}, which nobody wrote`);
      contents.push(place.content);
    }
    return contents;
  }

  #store(node: number, i: Instruction, owner: number, id: number, first: number, contents: (Content | undefined)[]): void {
    const lane = node * this.#width + i.lane;
    const clock = this.#clocks[lane];
    for (let k = 0; k < i.count; k++) {
      const chunk = (first + k) % this.#schedule.chunks;
      const place = this.#memory[owner][id][chunk];
      this.#orderAfterWrite(node, i, place, owner, chunk);
      for (let r = 0; r < place.readLanes.length; r++) {
        const reader = place.readLanes[r];
        if (reader !== lane && clock[reader] <= place.readPositions[r])
          this.#flaw(
            'race',
            node,
            i,
            `overwrites chunk ${chunk} of ${this.#name(id)} of ${owner} while lane ${reader % this.#width} of ${Math.floor(reader / this.#width)} may still read it`,
          );
      }
      place.content = isReduction(i.op) ? this.#combine(node, i, place.content, contents[k]) : contents[k];
      place.writeLane = lane;
      place.writePosition = this.#positions[lane];
      place.readLanes = [];
      place.readPositions = [];
    }
  }

  #orderAfterWrite(node: number, i: Instruction, place: History, owner: number, chunk: number): void {
    const lane = node * this.#width + i.lane;
    const writer = place.writeLane;
    if (writer !== -1 && writer !== lane && this.#clocks[lane][writer] <= place.writePosition)
      this.#flaw(
        'race',
        node,
        i,
        `touches chunk ${chunk} of ${owner} while lane ${writer % this.#width} of ${Math.floor(writer / this.#width)} may still write it`,
      );
  }

  #combine(node: number, i: Instruction, own: Content | undefined, other: Content | undefined): Content | undefined {
    if (own === undefined || other === undefined) {
      this.#flaw('content', node, i, 'reduces a content nobody wrote');
      return undefined;
    }
    if (own.chunk !== other.chunk) this.#flaw('content', node, i, `reduces chunk ${other.chunk} into chunk ${own.chunk}`);
    if ((own.ranks & other.ranks) !== 0n)
      this.#flaw('content', node, i, `adds contributions twice: ${members(own.ranks & other.ranks)}`);
    if (own.finished || other.finished) this.#flaw('content', node, i, 'reduces something already finished');
    const ranks = own.ranks | other.ranks;
    if (i.finish && ranks !== this.#all) this.#flaw('content', node, i, `finishes without ${members(this.#all & ~ranks)}`);
    return { chunk: own.chunk, ranks, finished: i.finish };
  }

  #checkResult(): void {
    const { size, buffers, nodes, collective } = this.#schedule;
    for (let rank = 0; rank < size; rank++) {
      for (let id = 0; id < buffers.length; id++) {
        if (buffers[id].kind !== 'user') continue;
        this.#memory[rank][id].forEach((place, chunk) => {
          const wanted = finalContent(this.#schedule, rank, id, chunk);
          if (wanted === undefined || same(wanted, place.content) || this.#flaws.length >= this.#limit) return;
          this.#flaws.push({
            kind: 'result',
            text: `rank ${rank} ends with ${show(place.content)} in chunk ${chunk} of ${this.#name(id)}, not ${show(wanted)}`,
          });
        });
      }
      this.#checkDeparture(rank);
      if (collective !== 'barrier') continue;
      for (let other = 0; other < size; other++) {
        let knows = other === rank;
        for (let lane = 0; lane < this.#width; lane++)
          knows ||= this.#clocks[rank * this.#width + lane][nodes * this.#width + other] === 1;
        if (!knows && this.#flaws.length < this.#limit)
          this.#flaws.push({ kind: 'result', text: `rank ${rank} may leave before rank ${other} has entered` });
      }
    }
  }

  /** A rank that has left may free or overwrite its buffers: no peer may still be at them. */
  #checkDeparture(rank: number): void {
    const left = this.#clocks[rank * this.#width].slice();
    for (let lane = 1; lane < this.#width; lane++) join(left, this.#clocks[rank * this.#width + lane]);
    for (const buffer of this.#memory[rank]) {
      buffer.forEach((place, chunk) => {
        const lanes = [place.writeLane, ...place.readLanes];
        const positions = [place.writePosition, ...place.readPositions];
        const late = lanes.findIndex(
          (lane, k) => lane !== -1 && Math.floor(lane / this.#width) !== rank && left[lane] <= positions[k],
        );
        if (late === -1 || this.#flaws.length >= this.#limit) return;
        this.#flaws.push({
          kind: 'race',
          text: `rank ${rank} may leave while ${Math.floor(lanes[late] / this.#width)} is still at its chunk ${chunk}`,
        });
      });
    }
  }

  #name(id: number): string {
    return this.#schedule.buffers[id].name;
  }
}

function join(clock: Int32Array, other: Int32Array): void {
  for (let k = 0; k < clock.length; k++) if (other[k] > clock[k]) clock[k] = other[k];
}

function isEmpty(i: Instruction): boolean {
  return i.op === 'signal' || i.op === 'wait';
}

function same(a: Content, b: Content | undefined): boolean {
  return b !== undefined && a.chunk === b.chunk && a.ranks === b.ranks && a.finished === b.finished;
}

function show(content: Content | undefined): string {
  return content === undefined
    ? 'nothing'
    : `chunk ${content.chunk} of ${members(content.ranks)}${content.finished ? ', finished' : ''}`;
}

function members(ranks: bigint): string {
  const list: number[] = [];
  for (let r = 0, rest = ranks; rest > 0n; r++, rest >>= 1n) if (rest & 1n) list.push(r);
  return `{${list.join(' ')}}`;
}
