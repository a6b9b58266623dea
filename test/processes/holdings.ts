/** What a process holds of the system: descriptors, resident memory, mappings. */

import { readdirSync, readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface Holdings {
  readonly descriptors: number;
  /** Resident memory without the JavaScript heap, whose size is the collector's affair, bytes. */
  readonly resident: number;
  /** Live objects of the JavaScript heap and what they hold outside it, bytes. */
  readonly heap: number;
  /** Resident pages of shared memory, bytes. */
  readonly residentShared: number;
  /** Mapped segments; the engine's own heap comes and goes. */
  readonly mappings: number;
}

/** Counts after garbage collections, with turns of the event loop between them, in which finalizers run. */
export async function holdings(): Promise<Holdings> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let i = 0; i < 4; i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const status = readFileSync('/proc/self/status', 'utf8');
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
  const { heapTotal, heapUsed, external } = process.memoryUsage();
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    resident: kib('VmRSS') - heapTotal,
    heap: heapUsed + external,
    residentShared: kib('RssShmem'),
    mappings: readFileSync('/proc/self/maps', 'utf8')
      .split('\n')
      .filter((line) => line.includes('memfd:verbena')).length,
  };
}
