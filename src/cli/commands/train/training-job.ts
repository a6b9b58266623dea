/** Starts the ranks of a training and listens to them. */

import { fileURLToPath } from 'node:url';
import { LOCAL_JOB, startJob } from '../../../launch/launcher/job.js';
import type { TrainingMessage, TrainingTask } from './training-task.js';

const RANK = fileURLToPath(new URL('./training-rank.js', import.meta.url));

export interface JobOptions {
  readonly task: Omit<TrainingTask, 'rank'>;
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
    if (message.type === 'members' && message.what === 'lost' && options.replace) {
      job.newcomer([JSON.stringify({ ...task, killAt: undefined })]).catch((error: Error) => errors.push(error.message));
    }
    options.heard(message);
  };
  const job = startJob({
    ...LOCAL_JOB,
    size: task.size,
    script: RANK,
    // Every rank is given the same words: its number comes from the launcher.
    args: [JSON.stringify(task)],
    cwd: process.cwd(),
    env: { ...process.env, OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1' },
    restarts,
    binding: options.bind ?? 'none',
    graceMs: 2000,
    keepGoing: restarts === 0,
    takeLine: (_rank, stream, line) => (stream === 'stdout' ? heard(line) : void errors.push(line)),
    tell: (line) => tell?.(line),
  });
  const stop = () => job.signal('SIGTERM', 143);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const result = await job.result;
    signal.throwIfAborted();
    if (done === undefined) {
      const reason = errors.slice(-12).join('\n') || result.failure?.reason || `exit code ${result.exitCode}`;
      throw Object.assign(new Error(`the training did not come to its end: ${reason}`), { code: 'TRAIN_FAILED' });
    }
    return done;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
