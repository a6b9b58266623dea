/** Starts the ranks of a training and listens to them. */

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOCAL_JOB, startJob } from '../../../launch/launcher/job.js';
import type { TrainingMessage, TrainingTask } from './training-task.js';

const RANK = fileURLToPath(new URL('./training-rank.js', import.meta.url));

export interface JobOptions {
  readonly task: Omit<TrainingTask, 'rank' | 'meeting'>;
  readonly signal: AbortSignal;
  /** How often the job is started again after a loss, from its last checkpoint. Default 0. */
  readonly restarts?: number;
  /** A rank that was lost is replaced by a newcomer. Default false. */
  readonly replace?: boolean;
  /** CPUs a rank may use. Default 'none': any. */
  readonly bind?: 'core' | 'none';
  heard(message: TrainingMessage): void;
  /** A line about the job itself. */
  tell?(line: string): void;
}

export type Done = Extract<TrainingMessage, { type: 'done' }>;

/** Runs a training to its end. @throws Error when nobody came to the end. */
export async function runTraining(options: JobOptions): Promise<Done> {
  const { task, signal, restarts = 0, tell } = options;
  signal.throwIfAborted();
  const meeting = mkdtempSync(join(tmpdir(), 'verbena-train-'));
  const newcomers: ChildProcess[] = [];
  const errors: string[] = [];
  let done: Done | undefined;
  const heard = (line: string) => {
    let message: TrainingMessage;
    try {
      message = JSON.parse(line) as TrainingMessage;
    } catch {
      tell?.(line);
      return;
    }
    if (message.type === 'done') done = message;
    if (message.type === 'members' && message.what === 'lost' && options.replace) newcomers.push(startNewcomer());
    options.heard(message);
  };
  const env = { ...process.env, OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1' };
  const startNewcomer = (): ChildProcess => {
    const own: TrainingTask = { ...task, rank: undefined, meeting, killAt: undefined };
    const child = spawn(process.execPath, [RANK, JSON.stringify(own)], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let rest = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() as string;
      lines.forEach(heard);
    });
    child.stderr?.on('data', (chunk: Buffer) => errors.push(String(chunk)));
    return child;
  };
  const job = startJob({
    ...LOCAL_JOB,
    size: task.size,
    script: RANK,
    // Every rank is given the same words: its number comes from the launcher.
    args: [JSON.stringify({ ...task, meeting })],
    cwd: process.cwd(),
    env,
    restarts,
    binding: options.bind ?? 'none',
    graceMs: 2000,
    keepGoing: restarts === 0,
    takeLine: (_rank, stream, line) => (stream === 'stdout' ? heard(line) : void errors.push(line)),
    tell: (line) => tell?.(line),
  });
  const stop = () => {
    job.signal('SIGTERM', 143);
    for (const child of newcomers) child.kill('SIGKILL');
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    const result = await job.result;
    await Promise.all(newcomers.map((child) => ended(child)));
    signal.throwIfAborted();
    if (done === undefined) {
      const reason = errors.slice(-12).join('\n') || result.failure?.reason || `exit code ${result.exitCode}`;
      throw Object.assign(new Error(`the training did not come to its end: ${reason}`), { code: 'TRAIN_FAILED' });
    }
    return done;
  } finally {
    signal.removeEventListener('abort', stop);
    for (const child of newcomers) child.kill('SIGKILL');
    rmSync(meeting, { recursive: true, force: true });
  }
}

/** A newcomer that was not let in before the end waits for nobody. */
function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), 3000);
    child.once('exit', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
