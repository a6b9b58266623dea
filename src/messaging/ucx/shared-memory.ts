/**
 * The memory file system that UCX shares memory through. A container has 64 MB of it, and where it is full UCX says only that it has no resources, or hands out memory that
 * peers cannot map. So it is looked at here, and the error says what is short, where, and what to do.
 */

import { readFileSync, statfsSync } from 'node:fs';
import { VerbsError } from '../../verbs/errors.js';

const MIB = 2 ** 20;
const inMib = (bytes: number): string => (bytes / MIB).toFixed(1);

export class SharedMemory {
  readonly #directory: string;

  /** @param directory UCX_POSIX_DIR */
  constructor(directory: string) {
    this.#directory = directory;
  }

  #space(): { readonly free: number; readonly size: number } {
    try {
      const { bsize, bavail, blocks } = statfsSync(this.#directory);
      return { free: bavail * bsize, size: blocks * bsize };
    } catch {
      return { free: 0, size: 0 };
    }
  }

  /** Whether so many bytes are not there. */
  isShortOf(bytes: number): boolean {
    return this.#space().free < bytes;
  }

  /** Why something that takes so many bytes cannot be had. */
  shortage(what: string, bytes: number): VerbsError {
    const { free, size } = this.#space();
    return new VerbsError(
      'VERBS_NO_MEMORY',
      `shared memory is short: ${what} takes ${inMib(bytes)} MiB, and ${this.#directory} has ${inMib(free)} of ${inMib(size)} MiB free. Make it larger ` +
        `(mount -o remount,size=1G ${this.#directory}; docker run --shm-size=1g), name another memory file system (UCX_POSIX_DIR), or go without it (UCX_TLS=sysv,cma,tcp,self)`,
    );
  }
}

/** Whether other processes can map the memory at an address. */
export function isMappedShared(address: number): boolean {
  for (const [, from, to, kind] of readFileSync('/proc/self/maps', 'latin1').matchAll(/^(\w+)-(\w+) ...(.)/gm)) {
    if (address >= Number.parseInt(from, 16) && address < Number.parseInt(to, 16)) return kind === 's';
  }
  return false;
}
