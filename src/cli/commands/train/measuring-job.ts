/** Runs a script on some ranks of this machine, one BLAS thread each, and returns what rank 0 printed. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOCAL_JOB, startJob } from '../../../launch/launcher/job.js';

/** The ranks get `task` with the folder where they meet. @throws Error when a rank fails. */
export async function runMeasuring<T>(script: string, ranks: number, task: object, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const meeting = mkdtempSync(join(tmpdir(), 'verbena-bench-'));
  const lines: string[] = [];
  const errors: string[] = [];
  const job = startJob({
    ...LOCAL_JOB,
    size: ranks,
    script,
    args: [JSON.stringify({ ...task, meeting })],
    cwd: process.cwd(),
    env: { ...process.env, OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1' },
    graceMs: 1000,
    takeLine: (_rank, stream, line) => (stream === 'stdout' ? lines : errors).push(line),
    tell: (line) => errors.push(line),
  });
  const stop = () => job.signal('SIGTERM', 143);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const { exitCode } = await job.result;
    signal.throwIfAborted();
    if (exitCode !== 0) throw new Error(`the ranks ended with ${exitCode}: ${errors.slice(-8).join('\n')}`);
    return JSON.parse(lines[0]) as T;
  } finally {
    signal.removeEventListener('abort', stop);
    rmSync(meeting, { recursive: true, force: true });
  }
}
