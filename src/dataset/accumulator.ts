/**
 * An accumulator: tasks add to it, the program reads the sum after the action. What a task adds counts once, when its first attempt succeeds; an attempt that
 * failed, was slower, or was only computed again because a rank died adds nothing.
 */

import { DatasetError } from './errors.js';
import { currentTask } from './scheduler/executor.js';

export class Accumulator<T> {
  readonly id: number;
  readonly name: string;
  readonly #zero: T;
  readonly #merge: (a: T, b: T) => T;
  #value: T;

  /** @internal Made by `session.accumulator`. */
  constructor(id: number, name: string, zero: T, merge: (a: T, b: T) => T) {
    this.id = id;
    this.name = name;
    this.#zero = zero;
    this.#merge = merge;
    this.#value = zero;
  }

  /** Adds, from inside a function that a task runs. @throws DATASET_INVALID outside of one. */
  add(amount: T): void {
    const task = currentTask();
    if (!task)
      throw new DatasetError(
        'DATASET_INVALID',
        `accumulator ${this.name}: add is for functions that tasks run, and none runs here`,
      );
    const before = task.additions.has(this.id) ? (task.additions.get(this.id) as T) : this.#zero;
    task.additions.set(this.id, this.#merge(before, amount));
  }

  /** The sum over all actions so far; the same on every rank. */
  get value(): T {
    return this.#value;
  }

  /** @internal */
  merge(a: unknown, b: unknown): unknown {
    return this.#merge(a as T, b as T);
  }

  /** @internal An action ended. */
  apply(amount: unknown): void {
    this.#value = this.#merge(this.#value, amount as T);
  }
}
