/**
 * Where this rank puts what does not fit in memory: files without a name (O_TMPFILE), so that a killed process leaves nothing behind. Their pages are reserved
 * before they are written to, so a full disk is an error that names the directory, and no signal in the middle of a store to a mapping.
 */

import { closeSync, constants, openSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { makeFolder } from '../../native/folder.js';
import { loadAddon } from '../../native/load.js';
import { DatasetError, systemError } from '../errors.js';
import type { Budget } from './budget.js';

/** Not among Node's constants: __O_TMPFILE | O_DIRECTORY, the same on x86-64; on arm64 O_DIRECTORY differs. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;

export class SpillDirectory {
  readonly path: string;
  readonly budget: Budget;

  /** @param path created when missing. Default: the directory for temporary files. */
  constructor(budget: Budget, path: string = tmpdir()) {
    this.path = path;
    this.budget = budget;
    try {
      makeFolder(path);
      closeSync(this.open());
    } catch (error) {
      throw new DatasetError('DATASET_INVALID', `the spill directory ${path} cannot be used: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  /** A new file without a name, for reading and writing. */
  open(): number {
    return openSync(this.path, O_TMPFILE | constants.O_RDWR, 0o600);
  }

  /** Counts bytes of the disk. @throws DATASET_DISK_FULL at the bound. */
  take(bytes: number): void {
    if (this.budget.tryTake(bytes)) return;
    throw new DatasetError(
      'DATASET_DISK_FULL',
      `this rank may keep ${this.budget.limit} bytes on disk and holds ${this.budget.used}: another ${bytes} do not fit. Raise diskBytes, or use more ranks.`,
    );
  }

  /** Makes sure that the disk has room for a part of a file. @throws DATASET_DISK_FULL. */
  reserve(fd: number, offset: number, bytes: number): void {
    const errno = loadAddon().reserve(fd, offset, bytes, -1);
    if (errno === 0) return;
    this.budget.give(bytes);
    throw systemError(`no room for ${bytes} bytes in ${this.path}`, {
      code: Math.abs(errno) === 28 ? 'ENOSPC' : 'EIO',
      message: `errno ${Math.abs(errno)}`,
    });
  }
}
