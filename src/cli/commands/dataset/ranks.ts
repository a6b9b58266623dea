/** Runs a program of this folder on several ranks of this machine and takes the JSON lines that rank 0 writes. */

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

/** The most memory that this process has had, bytes: all of it, and what is its own (not files or shared segments). */
export function peakBytes(): number {
  return process.resourceUsage().maxRSS * 1024;
}
