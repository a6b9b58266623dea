/** What a process holds of the system: descriptors, resident memory, mappings. */

import { readdirSync, readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface Holdings {
  readonly descriptors: number;
  /** Bytes. */
  readonly resident: number;
  /** Resident pages of shared memory, bytes. */
  readonly residentShared: number;
  readonly mappings: number;
}

/** Counts after a garbage collection. */
export function holdings(): Holdings {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  const status = readFileSync('/proc/self/status', 'utf8');
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    resident: kib('VmRSS'),
    residentShared: kib('RssShmem'),
    mappings: readFileSync('/proc/self/maps', 'utf8').split('\n').length,
  };
}
