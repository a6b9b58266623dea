/**
 * Constructors of instructions: the words in which algorithms are written.
 *
 * Each takes one object with named fields, so that a generator reads like the paper:
 *
 *   yield send({ lane: OUT, step, to: right, first: chunk });
 *   yield after({ lane: OUT, step, on: IN, count: step });
 *
 * Defaults everywhere: buffer 0, channel 0, count 1, finish false.
 */

import type { Instruction, Operation } from './schedule.js';

interface Place {
  readonly lane: number;
  readonly step: number;
}

interface Chunks {
  /** Own buffer id. Default 0. */
  readonly buffer?: number;
  readonly first: number;
  /** Chunks, >= 1. Default 1. */
  readonly count?: number;
}

interface Other {
  /** The source (copy, reduce) or the peer's buffer. Default 0. */
  readonly otherBuffer?: number;
  /** First chunk there. Default: `first`. */
  readonly otherFirst?: number;
}

interface Stream {
  readonly channel?: number;
}

interface Finish {
  readonly finish?: boolean;
}

/** Any instruction, all fields given; the others are shorthands for it. */
export function instruction(
  op: Operation,
  peer: number,
  f: Place & Partial<Chunks> & Other & Stream & Finish,
  count = f.count ?? 1,
): Instruction {
  const first = f.first ?? 0;
  return {
    op,
    lane: f.lane,
    step: f.step,
    peer,
    channel: f.channel ?? 0,
    buffer: f.buffer ?? 0,
    first,
    count,
    otherBuffer: f.otherBuffer ?? 0,
    otherFirst: f.otherFirst ?? (hasOther(op) ? first : 0),
    finish: f.finish ?? false,
  };
}

/** Sends chunks to another rank. */
export function send(f: Place & Chunks & Stream & { readonly to: number }): Instruction {
  return instruction('send', f.to, f);
}

/** Sends chunks to all ranks at once, where the fabric can. */
export function multicast(f: Place & Chunks & Stream): Instruction {
  return instruction('multicast', 0, f);
}

/** Takes chunks that another rank sends. */
export function receive(f: Place & Chunks & Stream & { readonly from: number }): Instruction {
  return instruction('receive', f.from, f);
}

/** Combines chunks that another rank sends into the own. */
export function receiveReduce(f: Place & Chunks & Stream & Finish & { readonly from: number }): Instruction {
  return instruction('receiveReduce', f.from, f);
}

/** Copies chunks inside the own memory. */
export function copy(f: Place & Chunks & Other & { readonly rank: number }): Instruction {
  return instruction('copy', f.rank, f);
}

/** Combines chunks inside the own memory. */
export function reduce(f: Place & Chunks & Other & Finish & { readonly rank: number }): Instruction {
  return instruction('reduce', f.rank, f);
}

/** Copies chunks out of another rank's memory. */
export function read(f: Place & Chunks & Other & { readonly from: number }): Instruction {
  return instruction('read', f.from, f);
}

/** Combines chunks of another rank's memory into the own. */
export function readReduce(f: Place & Chunks & Other & Finish & { readonly from: number }): Instruction {
  return instruction('readReduce', f.from, f);
}

/** Copies chunks into another rank's memory. */
export function write(f: Place & Chunks & Other & { readonly to: number }): Instruction {
  return instruction('write', f.to, f);
}

/** Tells another rank to go on. */
export function signal(f: Place & Stream & { readonly to: number }): Instruction {
  return instruction('signal', f.to, f, 0);
}

/** Waits for a signal of another rank. */
export function wait(f: Place & Stream & { readonly from: number }): Instruction {
  return instruction('wait', f.from, f, 0);
}

/** Holds `lane` until lane `on` of the same rank has completed `count` operations. */
export function after(f: Place & { readonly on: number; readonly count: number }): Instruction {
  return instruction('after', f.on, f);
}

/** Moves or combines data with a second place (own source or the peer's memory). */
export function hasOther(op: Operation): boolean {
  return op === 'copy' || op === 'reduce' || op === 'read' || op === 'readReduce' || op === 'write';
}

/** Puts something into a stream: matched by a take at the peer. */
export function isPost(op: Operation): boolean {
  return op === 'send' || op === 'multicast' || op === 'signal';
}

/** Takes the next thing out of a stream. */
export function isTake(op: Operation): boolean {
  return op === 'receive' || op === 'receiveReduce' || op === 'wait';
}

/** Combines with what the target holds, instead of replacing it. */
export function isReduction(op: Operation): boolean {
  return op === 'receiveReduce' || op === 'reduce' || op === 'readReduce';
}

/** One line for people: who, which step, what. */
export function describeInstruction(node: number, i: Instruction): string {
  const head = `node ${node} step ${i.step} lane ${i.lane} ${i.op}`;
  if (i.op === 'after') return `${head} ${i.count} of lane ${i.peer}`;
  return `${head} chunks ${i.first}+${i.count}${i.op === 'multicast' ? '' : ` peer ${i.peer}`}`;
}
