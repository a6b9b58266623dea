/**
 * What a collective is asked to do, checked: one shape describes every call. The methods of the communicator make requests, the planner finds an
 * algorithm for them, an executor runs them.
 */

import type { Collective, Schedule } from '../schedule/schedule.js';
import { countsSplit, evenSplit, type Split } from '../schedule/split.js';
import { type ElementType, elementType, movedType, type Reduction, type UserReduction, type Vector } from './element.js';
import { CollectiveError } from './errors.js';

export interface Request {
  readonly collective: Collective;
  /** User buffers in the order of the contract; undefined where this rank has none. */
  readonly buffers: readonly (Vector | undefined)[];
  /** Elements that chunks are cut from. */
  readonly count: number;
  readonly type: ElementType;
  readonly reduction?: Reduction;
  readonly root?: number;
  /** v-forms: elements of each chunk, for each user buffer; undefined: even. */
  readonly counts?: readonly (readonly number[] | undefined)[];
  readonly shards?: number;
  /** Only these algorithms can do it. */
  readonly only?: string;
}

/** v-forms. */
export interface Counts {
  /** Elements of each rank's part, the same list at all ranks. Default: as even as possible. */
  readonly counts?: readonly number[];
}

/** The v-form of the all-to-all. */
export interface PairCounts {
  /** Elements for each rank. Default: equal. */
  readonly sendCounts?: readonly number[];
  /** Elements from each rank. Default: equal. */
  readonly receiveCounts?: readonly number[];
}

export const WIDTHS: Readonly<Record<ElementType, number>> = { f32: 4, f64: 8, f16: 2, bf16: 2, i8: 1, i32: 4, i64: 8, u8: 1 };

export function invalid(message: string): CollectiveError {
  return new CollectiveError('COLL_INVALID', message);
}

/** 'allreduce of 1024 x f32' */
export function nameOf({ collective, count, type }: Request): string {
  return `${collective} of ${count} x ${type}`;
}

/** How buffer `id` of a request is cut into `chunks`. Scratch is cut like the data it takes in: the first user buffer's counts. */
export function splitOf({ count, counts = [] }: Request, id: number, user: boolean, chunks: number): Split {
  const list = counts[user ? id : 0];
  return list === undefined ? evenSplit(count, chunks) : countsSplit(list);
}

/** Makes the requests of one rank. Everything throws COLL_INVALID for arguments that do not fit together. */
export class Requests {
  readonly #rank: number;
  readonly #size: number;

  constructor(rank: number, size: number) {
    this.#rank = rank;
    this.#size = size;
  }

  reducing(
    collective: Collective,
    data: Vector,
    reduction: Reduction,
    type?: ElementType,
    root = 0,
    counts?: readonly number[],
  ): Request {
    if (collective === 'scan' && reduction === 'avg') throw invalid('a scan has no average');
    this.#checkCounts(counts, data.length);
    const request = {
      collective,
      buffers: [data],
      count: data.length,
      type: elementType(data, type),
      reduction,
      counts: [counts],
    };
    return { ...request, root: this.#checkRoot(root) };
  }

  moving(collective: Collective, data: Vector, root = 0, counts?: readonly number[]): Request {
    this.#checkCounts(counts, data.length);
    const request = { collective, buffers: [data], count: data.length, type: movedType(data), counts: [counts] };
    return { ...request, root: this.#checkRoot(root) };
  }

  rooted(
    collective: 'gather' | 'scatter',
    input: Vector | undefined,
    output: Vector | undefined,
    root: number,
    counts?: readonly number[],
  ): Request {
    const [part, whole] = collective === 'gather' ? [input, output] : [output, input];
    if (part === undefined) throw invalid(`${collective} needs the part of this rank`);
    const count = counts === undefined ? part.length * this.#size : counts.reduce((sum, n) => sum + n, 0);
    this.#checkCounts(counts, count);
    if (counts !== undefined && part.length !== counts[this.#rank]) {
      throw invalid(`this rank's part has ${part.length} elements, counts says ${counts[this.#rank]}`);
    }
    if (this.#rank === root && whole?.length !== count) {
      throw invalid(`the root of a ${collective} needs a vector of ${count} elements, got ${whole?.length ?? 'none'}`);
    }
    const at = this.#rank === root ? whole : undefined;
    const buffers = collective === 'gather' ? [part, at] : [at, part];
    return { collective, buffers, count, type: movedType(part), root: this.#checkRoot(root), counts: [counts, counts] };
  }

  exchanging(input: Vector, output: Vector, { sendCounts, receiveCounts }: PairCounts): Request {
    if ((sendCounts === undefined) !== (receiveCounts === undefined))
      throw invalid('give sendCounts and receiveCounts, or neither');
    const request = { collective: 'all-to-all' as const, buffers: [input, output], type: movedType(input) };
    if (sendCounts === undefined) {
      if (input.length !== output.length || input.length % this.#size !== 0) {
        throw invalid(
          `all-to-all needs two vectors of the same length, a multiple of ${this.#size}: ${input.length}, ${output.length}`,
        );
      }
      return { ...request, count: input.length };
    }
    this.#checkCounts(sendCounts, input.length);
    this.#checkCounts(receiveCounts, output.length);
    return { ...request, count: 0, counts: [sendCounts, receiveCounts], only: 'pairwise' };
  }

  shifting(input: Vector, output: Vector, distance: number): Request {
    if (input.length !== output.length) throw invalid(`sendrecv needs vectors of one length: ${input.length}, ${output.length}`);
    if (!Number.isInteger(distance)) throw invalid(`distance must be a whole number of ranks, got ${distance}`);
    const root = ((distance % this.#size) + this.#size) % this.#size;
    return { collective: 'send-receive', buffers: [input, output], count: input.length, type: movedType(input), root };
  }

  sharded(own: Vector, output: Vector, shards: number, reduction: Reduction, said?: ElementType): Request {
    if (!Number.isInteger(shards / this.#size) || shards < 1) {
      throw invalid(`shards must be a multiple of the ${this.#size} ranks, got ${shards}`);
    }
    const n = output.length;
    if (own.length !== (n * shards) / this.#size) {
      throw invalid(`this rank brings ${shards / this.#size} vectors of ${n} elements, got ${own.length} elements`);
    }
    const part = evenSplit(n, this.#size);
    const one = Array.from({ length: this.#size }, (_, c) => part.offset(c + 1) - part.offset(c));
    const counts = Array.from({ length: shards }, () => one).flat();
    return {
      collective: 'sharded-allreduce',
      buffers: [own, output],
      count: n * shards,
      type: elementType(own, said),
      reduction,
      shards,
      counts: [counts, counts],
    };
  }

  /** What a schedule does with these buffers. */
  scheduled(schedule: Schedule, buffers: readonly (Vector | undefined)[], op: Reduction, type?: ElementType): Request {
    const { collective, root } = schedule;
    const [first, second] = buffers;
    const need = (data: Vector | undefined): Vector => {
      if (data === undefined) throw invalid(`${collective}:${schedule.algorithm} needs a vector of this rank`);
      return data;
    };
    switch (collective) {
      case 'barrier':
        return this.barrier();
      case 'allreduce':
      case 'reduce-scatter':
      case 'reduce':
      case 'scan':
        return this.reducing(collective, need(first), op, type, root);
      case 'all-gather':
      case 'broadcast':
        return this.moving(collective, need(first), root);
      case 'gather':
      case 'scatter':
        return this.rooted(collective, first, second, root);
      case 'all-to-all':
        return this.exchanging(need(first), need(second), {});
      case 'send-receive':
        return this.shifting(need(first), need(second), root);
      case 'sharded-allreduce':
        return this.sharded(need(first), need(second), schedule.contributions, op, type);
    }
  }

  barrier(): Request {
    return { collective: 'barrier', buffers: [], count: 0, type: 'u8' };
  }

  /** Part r of a vector, r this rank's number. */
  part<V extends Vector>(data: V, counts?: readonly number[]): V {
    const split = counts === undefined ? evenSplit(data.length, this.#size) : countsSplit(counts);
    return data.subarray(split.offset(this.#rank), split.offset(this.#rank + 1)) as V;
  }

  /** Room for everybody's vector, with one's own in its place. */
  space(data: Vector): Vector {
    const make = data.constructor as new (length: number) => Vector;
    const all = new make(data.length * this.#size);
    all.set(data as never, data.length * this.#rank);
    return all;
  }

  /** `data` becomes the combination of the vectors of ranks 0 .. ranks - 1 in `all`, in that order. */
  fold(data: Vector, all: Vector, op: UserReduction, ranks = this.#size): void {
    const n = data.length;
    data.set(all.subarray(0, n) as never);
    for (let r = 1; r < ranks; r++) op(data, all.subarray(r * n, (r + 1) * n));
  }

  #checkRoot(root: number): number {
    if (Number.isInteger(root) && root >= 0 && root < this.#size) return root;
    throw invalid(`root must be 0 to ${this.#size - 1}, got ${root}`);
  }

  #checkCounts(counts: readonly number[] | undefined, elements: number): void {
    if (counts === undefined) return;
    const total = counts.reduce((sum, n) => sum + n, 0);
    if (counts.length !== this.#size || total !== elements) {
      throw invalid(`counts must be ${this.#size} numbers that add up to ${elements}: [${counts.join(', ')}]`);
    }
  }
}
