/**
 * Files as input: which there are, and how they are cut into splits. A path is a file, a folder (its files, those that begin with `_` or `.` left out), or has
 * `*` and `?` in its last part. The order is that of names, so every rank sees the same splits.
 */

import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatasetError } from '../errors.js';

export interface InputFile {
  readonly path: string;
  readonly bytes: number;
}

export interface Split {
  readonly path: string;
  readonly from: number;
  readonly to: number;
  readonly fileBytes: number;
}

/** The files of paths. @throws DATASET_INPUT with the path that is not there, is unreadable or has no files. */
export function inputFiles(paths: string | readonly string[]): InputFile[] {
  return (typeof paths === 'string' ? [paths] : paths).flatMap((path) => filesOf(path));
}

function filesOf(path: string): InputFile[] {
  try {
    const name = basename(path);
    if (/[*?]/.test(name)) {
      const pattern = new RegExp(
        `^${name
          .replace(/[.+^${}()|[\]\\]/g, '\\$&')
          .replaceAll('*', '.*')
          .replaceAll('?', '.')}$`,
      );
      const found = list(dirname(path)).filter((file) => pattern.test(basename(file.path)));
      if (found.length === 0) throw new DatasetError('DATASET_INPUT', `no file matches ${path}`);
      return found;
    }
    const found = statSync(path);
    if (!found.isDirectory()) return [{ path, bytes: found.size }];
    const files = list(path);
    if (files.length === 0) throw new DatasetError('DATASET_INPUT', `the folder ${path} has no files`);
    return files;
  } catch (error) {
    if (DatasetError.is(error)) throw error;
    throw new DatasetError('DATASET_INPUT', `the input ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

function list(folder: string): InputFile[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && !/^[._]/.test(entry.name))
    .map(({ name }) => ({ path: join(folder, name), bytes: statSync(join(folder, name)).size }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Cuts files into splits of about equal size, at least `wanted` of them where there is enough.
 * @param unit cuts fall on multiples of it, bytes.
 */
export function splitFiles(files: readonly InputFile[], wanted: number, largest: number, unit = 1): Split[] {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const ideal = Math.max(64 << 10, Math.min(largest, Math.ceil(total / Math.max(1, wanted))));
  return files.flatMap(({ path, bytes }) => {
    const parts = Math.max(1, Math.round(bytes / ideal));
    return Array.from({ length: parts }, (_, i) => ({
      path,
      from: Math.floor((i * bytes) / parts / unit) * unit,
      to: i === parts - 1 ? bytes : Math.floor(((i + 1) * bytes) / parts / unit) * unit,
      fileBytes: bytes,
    }));
  });
}
