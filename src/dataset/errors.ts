/** Errors of datasets. Each has a stable `code`, and one paragraph that says what happened, where, and what to do. */

/**
 * DATASET_INVALID: a bad argument or option. DATASET_INPUT: an input is missing, unreadable or broken. DATASET_OUTPUT: an output cannot be written.
 * DATASET_SCHEMA: columns are not what the operation needs. DATASET_USER: a function of the user threw, as often as a task may fail.
 * DATASET_DISK_FULL: the disk, or the bound of the disk. DATASET_MEMORY: more than the bound, where nothing can be spilled. DATASET_CORRUPT: bytes that
 * came back are not those that were written. DATASET_PLAN: the ranks built different plans. DATASET_LOST: the driver, or every worker, is gone.
 * DATASET_MISSING: an optional dependency is not installed. DATASET_ABORTED: the signal of another rank ended the action. DATASET_CLOSED: used after close.
 */
export type DatasetErrorCode =
  | 'DATASET_INVALID'
  | 'DATASET_INPUT'
  | 'DATASET_OUTPUT'
  | 'DATASET_SCHEMA'
  | 'DATASET_USER'
  | 'DATASET_DISK_FULL'
  | 'DATASET_MEMORY'
  | 'DATASET_CORRUPT'
  | 'DATASET_PLAN'
  | 'DATASET_LOST'
  | 'DATASET_MISSING'
  | 'DATASET_ABORTED'
  | 'DATASET_CLOSED';

const BRAND = Symbol.for('verbena.DatasetError');

/** Everything this layer throws on purpose. */
export class DatasetError extends Error {
  readonly code: DatasetErrorCode;
  readonly [BRAND] = true;

  constructor(code: DatasetErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'DatasetError';
    this.code = code;
  }

  /** True for a DatasetError of any copy of this package in the process. */
  static is(value: unknown): value is DatasetError {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}

/**
 * Blocks of a shuffle that could not be had: their rank is gone, or they came damaged twice. The scheduler computes them again; it is no failure of the task
 * that wanted them.
 */
export class FetchFailed extends Error {
  readonly shuffle: string;
  readonly maps: readonly number[];

  constructor(shuffle: string, maps: readonly number[], reason: string) {
    super(`blocks of maps ${maps.join(', ')} of shuffle ${shuffle} could not be fetched: ${reason}`);
    this.name = 'FetchFailed';
    this.shuffle = shuffle;
    this.maps = maps;
  }
}

/** The error of an errno from native code or from the file system, with what was being done. */
export function systemError(what: string, error: unknown): DatasetError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new DatasetError('DATASET_DISK_FULL', `${what}: the disk is full. Free some space, or name another directory.`, {
      cause: error,
    });
  }
  return new DatasetError('DATASET_OUTPUT', `${what}: ${message}`, { cause: error });
}
