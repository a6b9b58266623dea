/**
 * What the shared-memory algorithms have in common: one lane on which ranks signal each other and reach into each other's buffers, with one synchronisation before,
 * so that everybody's buffer is ready, and one after, so that nobody changes what is still read.
 */

import { DATA } from '../schedule/contract.js';
import { readReduce, signal, wait } from '../schedule/instruction.js';
import { type BufferSpec, type Collective, defineSchedule, type Instruction, type Schedule } from '../schedule/schedule.js';
import { onOneHost } from './algorithm.js';

export const LANE = 0;

/** What every such algorithm says of itself. */
export const SHARED_DIRECT = { name: 'shared-direct', needs: 'shared-memory', supports: onOneHost } as const;

/** Tells all others to go on, the next one first: so ranks begin with different peers. */
export function* signalAll(rank: number, size: number, step: number): Generator<Instruction> {
  for (let k = 1; k < size; k++) yield signal({ lane: LANE, step, to: (rank + k) % size });
}

/** Tells all others that their buffers are no longer needed, and waits until they say the same. */
export function* meet(rank: number, size: number, step: number): Generator<Instruction> {
  yield* signalAll(rank, size, step);
  for (let k = 1; k < size; k++) yield wait({ lane: LANE, step, from: (rank + k) % size });
}

/** Combines the own chunk out of all others' buffers, as they become ready: steps 1 to size - 1. */
export function* combineOwn(rank: number, size: number): Generator<Instruction> {
  yield* signalAll(rank, size, 0);
  for (let k = 1; k < size; k++) {
    const from = (rank + k) % size;
    yield wait({ lane: LANE, step: k, from });
    yield readReduce({ lane: LANE, step: k, from, first: rank, finish: k === size - 1 });
  }
}

/** A schedule of one chunk a rank on one lane of memory. */
export function sharedSchedule(parts: {
  readonly collective: Collective;
  readonly size: number;
  readonly root?: number;
  /** Default: the vector alone. */
  readonly buffers?: readonly BufferSpec[];
  readonly steps: number;
  program(rank: number): Iterable<Instruction>;
}): Schedule {
  const { size, buffers = [DATA] } = parts;
  const lanes = [{ name: 'memory', reach: 'memory' }] as const;
  return defineSchedule({ ...parts, algorithm: SHARED_DIRECT.name, chunks: size, buffers, lanes });
}
