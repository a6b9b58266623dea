/** Runs a program of this folder on several ranks of this machine and takes the JSON lines that rank 0 writes. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { startJob } from '../../../launch/launcher/job.js';

export interface RanksOptions {
  readonly ranks: number;
  /** Passed to the program as JSON. */
  readonly argument: unknown;
  readonly signal: AbortSignal;
  /** A line for whoever waits. */
  progress(line: string): void;
}

/** @throws Error with the last lines where a rank fails. */
export async function runRanks<T>(program: URL, { ranks, argument, signal, progress }: RanksOptions): Promise<T[]> {
  const documents: T[] = [];
  const complaints: string[] = [];
  const job = startJob({
    size: ranks,
    script: fileURLToPath(program),
    args: [JSON.stringify(argument)],
    execArgv: [],
    cwd: process.cwd(),
    env: process.env,
    timeoutMs: 0,
    restarts: 0,
    binding: 'none',
    graceMs: 1000,
    virtualHosts: undefined,
    hosts: undefined,
    remoteEnv: {},
    interface: undefined,
    keepGoing: false,
    port: 0,
    stdin: undefined,
    takeLine: (rank, stream, line) => {
      if (stream === 'stdout' && rank === 0 && line.startsWith('{')) documents.push(JSON.parse(line) as T);
      else if (stream === 'stdout' && rank === 0) progress(line);
      else if (stream === 'stderr') complaints.push(`[${rank}] ${line}`);
    },
    tell: (line) => complaints.push(line),
  });
  const stop = () => job.signal('SIGTERM', 143);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const { exitCode } = await job.result;
    signal.throwIfAborted();
    if (exitCode !== 0) throw new Error(`the ranks ended with ${exitCode}:\n${complaints.slice(-40).join('\n')}`);
    return documents;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/**
 * The most memory that this process has had from now on, bytes, looked at ten times a second: its own pages and shared memory. Pages of mapped files are not in
 * it: they are the page cache's, which lets them go when memory is short.
 */
export function watchPeak(): () => number {
  let most = 0;
  const look = () => {
    const status = readFileSync('/proc/self/status', 'utf8');
    const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
    most = Math.max(most, of('RssAnon') + of('RssShmem'));
    return most;
  };
  look();
  setInterval(look, 100).unref();
  return look;
}
