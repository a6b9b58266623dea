/**
 * Files in which Linux tells about itself (/proc, /sys), read under a root that a test can replace. A file that is missing or may not
 * be read is undefined: on a stranger's machine that is the normal case, not an error.
 */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

export class HostFiles {
  readonly #root: string;

  /** @param root default: the machine itself. */
  constructor(root = '/') {
    this.#root = root;
  }

  /** The text without white space at its ends. */
  text(path: string): string | undefined {
    try {
      return readFileSync(join(this.#root, path), 'utf8').trim();
    } catch {
      return undefined;
    }
  }

  /** A file that holds one number. */
  number(path: string): number | undefined {
    const text = this.text(path);
    return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : undefined;
  }

  /** Names in a folder, sorted; empty when there is none. */
  list(path: string): string[] {
    try {
      return readdirSync(join(this.#root, path)).sort();
    } catch {
      return [];
    }
  }

  /** Where a symbolic link points. */
  link(path: string): string | undefined {
    try {
      return readlinkSync(join(this.#root, path));
    } catch {
      return undefined;
    }
  }

  /** The value of a `Name:   value` line, as in /proc/self/status and /proc/meminfo. */
  field(path: string, name: string): string | undefined {
    const line = this.text(path)
      ?.split('\n')
      .find((candidate) => candidate.startsWith(`${name}:`));
    return line?.slice(name.length + 1).trim();
  }
}
