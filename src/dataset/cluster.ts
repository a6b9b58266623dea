/**
 * A cluster out of a plain script: `node job.js` becomes the launcher of so many ranks of the same script, and each of them gets the session.
 *
 * ```ts
 * import { cluster } from 'verbena/dataset';
 *
 * const data = await cluster({ workers: 4 }, import.meta.url);
 * const n = await data.range(1_000_000).filter((i) => i % 7 === 0).count();
 * if (data.isDriver) console.log(n);
 * await data.close();
 * ```
 *
 * In the process that was started, `cluster` does not return: it passes on what the ranks write, and ends with the exit code of rank 0. A worker that dies does not end
 * the job; rank 0, which hands out the tasks, does.
 */

import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { readEnvironment } from '../launch/environment.js';
import { typescriptExecArgv } from '../launch/typescript/typescript.js';
import { DatasetError } from './errors.js';
import type { SessionOptions } from './options.js';
import { openDatasets, type Session } from './session.js';

export interface ClusterOptions extends SessionOptions {
  /** Ranks, from 1. */
  readonly workers: number;
  /** Whose stdout is shown: rank 0's alone, or everybody's with the rank in front. Default 'driver'. stderr is always shown. */
  readonly output?: 'driver' | 'all';
  /** Arguments of the script in the ranks. Default: those of this process. */
  readonly args?: readonly string[];
}

/** @param script `import.meta.url` of the script. @throws DATASET_INVALID, what openDatasets throws. */
export async function cluster(options: ClusterOptions, script: string): Promise<Session> {
  const { workers, output = 'driver', args = process.argv.slice(2), ...session } = options;
  if (!Number.isInteger(workers) || workers < 1 || workers > 4096) {
    throw new DatasetError('DATASET_INVALID', `workers is a whole number from 1 to 4096: got ${workers}`);
  }
  if (readEnvironment().launcher !== 'single') return openDatasets(session);
  const path = fileURLToPath(script);
  const { LOCAL_JOB, startJob } = await import('../launch/launcher/job.js');
  const job = startJob({
    ...LOCAL_JOB,
    size: workers,
    script: path,
    args,
    execArgv: execArgvFor(path),
    cwd: process.cwd(),
    env: process.env,
    graceMs: 2000,
    keepGoing: true,
    takeLine: (rank, stream, line) => {
      if (stream === 'stderr') process.stderr.write(`[${rank}] ${line}\n`);
      else if (output === 'all') process.stdout.write(`[${rank}] ${line}\n`);
      else if (rank === 0) process.stdout.write(`${line}\n`);
    },
    tell: (line) => process.stderr.write(`verbena: ${line}\n`),
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => job.signal(signal, 128 + constants.signals[signal]));
  }
  const { ranks, exitCode, ended } = await job.result;
  const driver = ranks.find(({ rank }) => rank === 0);
  process.exit(ended === undefined && driver?.code === 0 ? 0 : exitCode || 1);
}

/** Node's options for the ranks: those of this process, and where this Node cannot run TypeScript the hooks that `verbena exec` uses. */
function execArgvFor(script: string): string[] {
  const hooks = typescriptExecArgv();
  const given = hooks.length === 0 || process.execArgv.includes(hooks.at(-1) as string);
  return given || !/\.[cm]?ts$/.test(script) ? process.execArgv : [...process.execArgv, ...hooks];
}
