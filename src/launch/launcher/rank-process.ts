/**
 * One rank as a process of this host.
 *
 *   stdout, stderr   pipes, cut into lines          stdin   a pipe for rank 0, nothing for the others
 *   descriptor 3     a socket: the job's secret goes through it, and its end tells the rank that the launcher is gone
 *
 * The rank leads a session and a process group of its own: what it started ends with it, and a terminal's Ctrl-C reaches it only through the launcher.
 */

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Duplex, Readable, Writable } from 'node:stream';
import { LaunchError } from '../errors.js';
import type { HandedOver } from '../handed-over.js';
import { type Binding, cpusFor } from './binding.js';
import { LineSplitter } from './line-splitter.js';

export interface RankSpec {
  readonly rank: number;
  /** The script and its arguments. */
  readonly script: string;
  readonly args: readonly string[];
  /** Options of node before the script. */
  readonly execArgv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** CPUs, by the place among the ranks of the host. */
  readonly binding: Binding;
  readonly localRank: number;
  readonly localSize: number;
  readonly handOver: HandedOver;
  /** Give it a stdin. */
  readonly stdin: boolean;
}

export interface RankExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What is known instead, when the process itself could not be asked: 'was lost: ...' */
  readonly why?: string;
}

/** A rank that runs, here or elsewhere. */
export interface RankHandle {
  readonly rank: number;
  readonly pid: number;
  readonly host: string;
  readonly stdin: Writable | null;
  /** Resolves when the process is gone and its output has been read. Never rejects. */
  readonly exited: Promise<RankExit>;
  /** To the rank and everything it started. */
  signal(signal: NodeJS.Signals): void;
}

export type TakeLine = (rank: number, stream: 'stdout' | 'stderr', line: string) => void;

/** After the rank has ended its output may still be held open by something it started; then it is read for so long, ms. */
const OUTPUT_MS = 1000;

/** The exit code that a shell would show. */
export function exitCodeOf({ code, signal }: RankExit): number {
  return code ?? 128 + (signal ? constants.signals[signal] : 0);
}

/** 'exited with code 3', 'was killed by SIGKILL' */
export function exitInWords({ code, signal, why }: RankExit): string {
  if (why !== undefined) return why;
  return signal ? `was killed by ${signal}` : `exited with code ${code}`;
}

/** Starts a rank. @throws LAUNCH_HOST when the system refuses another process. */
export async function startRank(spec: RankSpec, host: string, take: TakeLine): Promise<RankHandle> {
  const preload = new URL('../rank-preload.js', import.meta.url).href;
  const node = [process.execPath, '--import', preload, ...spec.execArgv, spec.script, ...spec.args];
  const cpus = cpusFor(spec.binding, spec.localRank, spec.localSize);
  const command = cpus === undefined ? node : ['taskset', '-c', cpus.join(','), ...node];
  const options: SpawnOptions = {
    cwd: spec.cwd,
    env: { ...spec.env, VERBENA_LAUNCHER_PIPE: '3' },
    detached: true,
    stdio: [spec.stdin ? 'pipe' : 'ignore', 'pipe', 'pipe', 'pipe'],
  };
  const child = spawn(command[0], command.slice(1), options);
  const started = new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error: NodeJS.ErrnoException) => reject(startError(error, command[0], spec.rank)));
  });
  await started; // one that was not even begun has no pipes
  const exited = ended(child);
  const pipe = child.stdio[3] as Duplex;
  pipe.on('error', () => {}); // the rank is gone before it read: its exit tells
  for (const stream of ['stdout', 'stderr'] as const) {
    const splitter = new LineSplitter((line) => take(spec.rank, stream, line));
    const source = child[stream] as Readable;
    source.on('data', (chunk: Buffer) => splitter.push(chunk));
    source.on('close', () => splitter.end());
  }
  child.stdin?.on('error', () => {});
  pipe.write(`${JSON.stringify(spec.handOver)}\n`);
  const { pid } = child as { pid: number };
  return { rank: spec.rank, pid, host, stdin: child.stdin, exited, signal: (signal) => signalGroup(pid, signal) };
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // Nobody is left in the group.
  }
}

/** The end of the process and of its output. */
function ended(child: ChildProcess): Promise<RankExit> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      // What the rank started and left running ends with it.
      if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
      const done = () => {
        clearTimeout(timer);
        resolve({ code, signal });
      };
      const timer = setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
        done();
      }, OUTPUT_MS);
      child.once('close', done);
      child.stdio[3]?.destroy();
    });
  });
}

const REACHED: Readonly<Record<string, string>> = {
  EAGAIN: 'the limit of processes is reached: start fewer ranks, or raise ulimit -u',
  EMFILE: 'the limit of open files is reached: start fewer ranks, or raise ulimit -n',
  ENOMEM: 'there is no memory left: start fewer ranks',
};

function startError(error: NodeJS.ErrnoException, command: string, rank: number): LaunchError {
  const advice =
    REACHED[error.code ?? ''] ??
    (command === 'taskset'
      ? 'taskset is needed for --bind: install util-linux, or use --bind none'
      : 'check that the working directory exists and that node may be executed');
  return new LaunchError('LAUNCH_HOST', `rank ${rank} cannot be started (${error.message}): ${advice}`, { cause: error, rank });
}
