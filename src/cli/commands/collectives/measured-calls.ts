/** Times of calls on this machine: starts the ranks, one process each, and waits for what they measured. */

import { spawn } from 'node:child_process';
import { setMaxListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MeasuredCall, MeasuredTime } from '../../../collectives/index.js';
import { allowedCpus } from '../../cpus.js';
import { pinned } from '../bench/child-program.js';
import type { MeasureTask } from './measure-process.js';
import { outputOf } from './subjects.js';

const PROCESS = fileURLToPath(new URL('./measure-process.js', import.meta.url));

export interface MeasureOptions {
  readonly ranks: number;
  readonly memory: MeasureTask['memory'];
  /** Milliseconds for each call. */
  readonly durationMs: number;
  readonly machine?: MeasureTask['machine'];
  readonly signal: AbortSignal;
}

/** @throws Error with the end of stderr when a rank fails. */
export async function measureCalls(calls: readonly MeasuredCall[], options: MeasureOptions): Promise<MeasuredTime[]> {
  const { ranks, memory, durationMs, machine, signal } = options;
  const directory = mkdtempSync(join(tmpdir(), 'verbena-measure-'));
  const cpus = allowedCpus();
  const stop = new AbortController(); // a rank that fails must not leave the others waiting for it
  setMaxListeners(0, stop.signal); // every process listens
  const either = AbortSignal.any([signal, stop.signal]);
  try {
    const running = Array.from({ length: ranks }, (_, rank) => {
      const task: MeasureTask = { rank, size: ranks, directory, memory, calls, durationMs, machine };
      const line = [process.execPath, PROCESS, JSON.stringify(task)];
      const [command, ...args] = ranks <= cpus.length ? pinned([cpus[rank]], line) : line;
      return outputOf(spawn(command, args, { signal: either, killSignal: 'SIGKILL' }));
    });
    try {
      const [first] = await Promise.all(running);
      const seconds = JSON.parse(first) as number[];
      return calls.map((call, i) => ({ ...call, seconds: seconds[i] }));
    } catch (error) {
      stop.abort();
      await Promise.allSettled(running);
      throw error;
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
