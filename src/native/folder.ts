/** Folders that a user names for output. */

import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes the folder and those above it, where they are missing. Not by `recursive` of mkdir: that never ends where a file system says ENOENT below a folder that
 * exists, as /proc does. @throws the system's error.
 */
export function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    if (!existsSync(path)) throw error; // another process was first
  }
}
