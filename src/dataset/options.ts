/** Options of a session, each with its default and range, and the check that there are no others. */

import { freemem, tmpdir, totalmem } from 'node:os';
import { DatasetError } from './errors.js';
import type { ShuffleFactory } from './shuffle/manager.js';

export interface SessionOptions {
  /** How map output travels: 'rdma', 'sort-tcp', 'auto' (rdma), or a manager of your own. Default 'auto', or VERBENA_SHUFFLE. */
  readonly shuffle?: 'auto' | 'rdma' | 'sort-tcp' | ShuffleFactory;
  /** What this rank may hold in memory, bytes: map output, what is being sorted, aggregated and cached. From 16 MiB. Default: half of the machine's, or all that is free, divided by its ranks. */
  readonly memoryBytes?: number;
  /** The same for all ranks together. Default: no bound. */
  readonly jobMemoryBytes?: number;
  /** What this rank may put on disk, bytes. Default: no bound but the disk. */
  readonly diskBytes?: number;
  /** The same for all ranks together. Default: no bound. */
  readonly jobDiskBytes?: number;
  /** Where spilled data goes. Default: the directory for temporary files. */
  readonly spillDirectory?: string;
  /** Partitions of a shuffle or source where nothing is said. Default: twice the ranks. */
  readonly partitions?: number;
  /** Bytes that one reading task may have in flight. From 64 KiB. Default 48 MiB, or an eighth of the memory bound. */
  readonly windowBytes?: number;
  /** Check every block that was read against its checksum. Default true. */
  readonly checksums?: boolean;
  /** Failures of one task before the action fails. From 1. Default 4. */
  readonly maxFailures?: number;
  /** Start slow tasks a second time elsewhere. Default true. */
  readonly speculation?: boolean;
  /** Slow is: so many times the median of the stage. From 1. Default 2. */
  readonly speculationFactor?: number;
  /** And at least so long, ms. Default 1000. */
  readonly speculationMs?: number;
}

/** What every action takes. */
export interface ActionOptions {
  /** Ends the action, at all ranks: here with the signal's reason, at ranks whose own signal is not the cause with DATASET_ABORTED. Default: none. */
  readonly signal?: AbortSignal;
}

export interface Settings {
  readonly shuffle: 'auto' | 'rdma' | 'sort-tcp' | ShuffleFactory;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly spillDirectory: string;
  readonly partitions: number;
  readonly windowBytes: number;
  readonly checksums: boolean;
  readonly maxFailures: number;
  readonly speculation: boolean;
  readonly speculationFactor: number;
  readonly speculationMs: number;
}

const NAMES: Readonly<Record<keyof SessionOptions, true>> = {
  shuffle: true,
  memoryBytes: true,
  jobMemoryBytes: true,
  diskBytes: true,
  jobDiskBytes: true,
  spillDirectory: true,
  partitions: true,
  windowBytes: true,
  checksums: true,
  maxFailures: true,
  speculation: true,
  speculationFactor: true,
  speculationMs: true,
};

function numberOf(options: SessionOptions, name: keyof SessionOptions, standard: number, low: number): number {
  const value = options[name] ?? standard;
  if (typeof value !== 'number' || !(value >= low)) {
    throw new DatasetError('DATASET_INVALID', `${name} is a number from ${low}: got ${String(value)}`);
  }
  return value;
}

export function settingsOf(options: SessionOptions, size: number, localSize: number): Settings {
  for (const name of Object.keys(options)) {
    if (!Object.hasOwn(NAMES, name)) {
      throw new DatasetError('DATASET_INVALID', `there is no option ${name}: there are ${Object.keys(NAMES).join(', ')}`);
    }
  }
  const machine = Math.min(totalmem(), freemem() * 2);
  const standard = Math.max(64 << 20, Math.floor(machine / 2 / localSize));
  const own = numberOf(options, 'memoryBytes', standard, 16 << 20);
  const all = numberOf(options, 'jobMemoryBytes', Number.POSITIVE_INFINITY, 16 << 20);
  const memoryBytes = Math.min(own, all / size);
  const disk = numberOf(options, 'diskBytes', Number.POSITIVE_INFINITY, 0);
  const allDisk = numberOf(options, 'jobDiskBytes', Number.POSITIVE_INFINITY, 0);
  const shuffle = options.shuffle ?? (process.env['VERBENA_SHUFFLE'] as 'auto' | undefined) ?? 'auto';
  if (typeof shuffle !== 'function' && !['auto', 'rdma', 'sort-tcp'].includes(shuffle)) {
    throw new DatasetError('DATASET_INVALID', `there is no shuffle ${String(shuffle)}: there are auto, rdma and sort-tcp`);
  }
  return {
    shuffle,
    memoryBytes,
    diskBytes: Math.min(disk, allDisk / size),
    spillDirectory: options.spillDirectory ?? tmpdir(),
    partitions: numberOf(options, 'partitions', size * 2, 1),
    windowBytes: numberOf(options, 'windowBytes', Math.min(48 << 20, memoryBytes / 8), 64 << 10),
    checksums: options.checksums ?? true,
    maxFailures: numberOf(options, 'maxFailures', 4, 1),
    speculation: options.speculation ?? true,
    speculationFactor: numberOf(options, 'speculationFactor', 2, 1),
    speculationMs: numberOf(options, 'speculationMs', 1000, 0),
  };
}
