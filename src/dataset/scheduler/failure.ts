/** Errors between ranks: turned into words where they happen, and into errors again where somebody waits for them. */

import { inspect } from 'node:util';
import { DatasetError, type DatasetErrorCode, FetchFailed } from '../errors.js';
import type { PlanNode } from '../plan/node.js';
import type { Task } from '../plan/task.js';
import type { ErrorWords } from './protocol.js';

/** A function of the user threw. Carries where it was and what it was given. */
export class UserFailure extends Error {
  /** @param index of the record among those that the operator has seen; below 0: not known. */
  constructor(cause: unknown, node: Pick<PlanNode, 'name' | 'site'>, task: Task, record: unknown, index: number) {
    const shown = inspect(record, { depth: 2, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 120 });
    const at = task.position === '' ? '' : `, read from ${task.position}${task.batchRows === 1 ? '' : ' or shortly after'}`;
    super(
      `the function given to ${node.name} at ${node.site} threw in partition ${task.partition}, at ${index < 0 ? 'the record' : `its record ${index}`}${at}: ${shown}\n` +
        `${cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)}`,
    );
    this.name = 'UserFailure';
    this.cause = cause;
  }
}

/** What became of a function of the user: its error with the record, any other as it is. `index` as in UserFailure. */
export function failureOf(
  error: unknown,
  node: Pick<PlanNode, 'name' | 'site'>,
  task: Task,
  record: unknown,
  index: number,
): unknown {
  const isOurs = error instanceof UserFailure || error instanceof FetchFailed || DatasetError.is(error) || task.signal.aborted;
  return isOurs ? error : new UserFailure(error, node, task, record, index);
}

/** Errors after which another attempt would end the same way. */
const FATAL: readonly string[] = [
  'DATASET_INVALID',
  'DATASET_INPUT',
  'DATASET_OUTPUT',
  'DATASET_SCHEMA',
  'DATASET_MEMORY',
  'DATASET_PLAN',
  'DATASET_MISSING',
];

export function wordsOf(error: unknown): ErrorWords {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const code = DatasetError.is(error) ? error.code : undefined;
  return {
    name,
    code,
    message,
    stack: stack ?? '',
    isUsers: error instanceof UserFailure,
    isFatal: code !== undefined && FATAL.includes(code),
  };
}

/** The error again. `context` is put in front. */
export function errorOf(words: ErrorWords, context = ''): DatasetError {
  const code = (words.code as DatasetErrorCode | undefined) ?? 'DATASET_USER';
  const error = new DatasetError(code, `${context}${words.message}`);
  const remote = new Error(words.message);
  remote.name = words.name;
  remote.stack = words.stack;
  error.cause = remote;
  return error;
}
