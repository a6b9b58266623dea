/** What the collective benchmarks measure: Verbena's processes, Open MPI, MPICH, gloo, and the bare limit. Each round starts afresh. */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allowedCpus } from '../../cpus.js';
import { findProgram, pinned } from '../bench/child-program.js';
import type { RankReport, RankTask } from './rank-process.js';

type Task = Omit<RankTask, 'rank' | 'directory'>;

interface RoundResult {
  /** Microseconds of a call, for each batch. */
  readonly times: readonly number[];
  readonly wrong?: number;
  readonly what: string;
}

export interface Subject {
  readonly who: string;
  unfit(collective: RankTask['collective']): string | undefined;
  /** The command that installs it, or undefined when it is there. */
  missing(): string | undefined;
  round(task: Task, signal: AbortSignal): Promise<RoundResult>;
}

const PROCESS = fileURLToPath(new URL('./rank-process.js', import.meta.url));
const PEERS = fileURLToPath(new URL('../../../../../bench/peers/', import.meta.url));

export const verbena: Subject = {
  who: 'verbena/shm',
  unfit: () => undefined,
  missing: () => undefined,
  async round(task, signal) {
    const directory = mkdtempSync(join(tmpdir(), 'verbena-bench-'));
    const cpus = allowedCpus();
    try {
      const outputs = await Promise.all(
        Array.from({ length: task.size }, (_, rank) => {
          const argument: RankTask = { ...task, rank, directory };
          const line = [process.execPath, PROCESS, JSON.stringify(argument)];
          const [command, ...args] = rank < cpus.length && task.size <= cpus.length ? pinned([cpus[rank]], line) : line;
          return outputOf(spawn(command, args, { signal, killSignal: 'SIGKILL' }));
        }),
      );
      const { times, wrong, algorithm } = JSON.parse(outputs[0]) as RankReport;
      return { times, wrong, what: algorithm };
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

/** Two implementations of MPI run the same C program. */
function mpi(
  who: string,
  packages: string,
  launch: readonly string[],
  compilers: readonly string[],
  flags: readonly string[],
): Subject {
  const launcher = () => launch.find((name) => findProgram(name));
  const compiler = () => compilers.find((name) => findProgram(name));
  return {
    who,
    unfit: () => undefined,
    missing: () =>
      existsSync(join(PEERS, 'collective-mpi.c')) && launcher() && compiler() ? undefined : `apt-get install ${packages} gcc`,
    async round(task, signal) {
      const program = compiled('collective-mpi', compiler() as string, ['-O2']);
      const args = ['-n', String(task.size), ...flags, program];
      args.push(task.collective, String(task.bytes), String(task.durationMs));
      const env = { ...process.env, OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
      const output = await outputOf(spawn(launcher() as string, args, { env, signal, killSignal: 'SIGKILL' }));
      return { ...checked(output), what: ['mpirun', ...args.slice(0, 2 + flags.length)].join(' ') };
    },
  };
}

export const openmpi = mpi(
  'openmpi',
  'openmpi-bin libopenmpi-dev',
  ['mpirun.openmpi', 'mpirun'],
  ['mpicc.openmpi', 'mpicc'],
  ['--bind-to', 'none', '--oversubscribe'],
);

export const mpich = mpi('mpich', 'mpich libmpich-dev', ['mpirun.mpich'], ['mpicc.mpich'], []);

/** gloo has no command line of its own: PyTorch in the environment that setup:peers makes. */
const PYTHON = join(PEERS, 'python', 'bin', 'python3');

export const gloo: Subject = {
  who: 'gloo',
  unfit: () => undefined,
  missing: () =>
    existsSync(join(PEERS, 'collective-gloo.py')) && hasPyTorch() ? undefined : 'npm run setup:peers -- --with-pytorch',
  async round(task, signal) {
    const directory = mkdtempSync(join(tmpdir(), 'verbena-gloo-'));
    const stop = new AbortController(); // a rank that fails must not leave the others waiting for it
    setMaxListeners(0, stop.signal); // every process listens
    const either = AbortSignal.any([signal, stop.signal]);
    try {
      const ranks = Array.from({ length: task.size }, (_, rank) => {
        const place = [String(rank), String(task.size), join(directory, 'store')];
        const args = [join(PEERS, 'collective-gloo.py'), ...place, task.collective, String(task.bytes), String(task.durationMs)];
        const env = { ...process.env, GLOO_SOCKET_IFNAME: 'lo' };
        return outputOf(spawn(PYTHON, args, { env, signal: either, killSignal: 'SIGKILL' }));
      });
      try {
        const outputs = await Promise.all(ranks);
        return { ...checked(outputs[0]), what: 'PyTorch, TCP on the loopback' };
      } catch (error) {
        stop.abort();
        await Promise.allSettled(ranks);
        throw error;
      }
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

let pytorch: boolean | undefined;

function hasPyTorch(): boolean {
  pytorch ??= existsSync(PYTHON) && spawnSync(PYTHON, ['-c', 'import torch.distributed']).status === 0;
  return pytorch;
}

export const limit: Subject = {
  who: 'limit',
  unfit: (collective) => (collective === 'allreduce' ? undefined : 'the bare program knows the all-reduce only'),
  missing: () =>
    existsSync(join(PEERS, 'collective-limit.c')) && findProgram('cc') ? undefined : 'apt-get install gcc libc6-dev',
  async round(task, signal) {
    const program = compiled('collective-limit', 'cc', ['-O3']);
    const args = [String(task.size), String(task.bytes), String(task.durationMs)];
    return {
      times: numbers(await outputOf(spawn(program, args, { signal, killSignal: 'SIGKILL' }))),
      what: 'one mapping, bare C',
    };
  },
};

/** A line with the wrong elements, then the times. */
function checked(output: string): { readonly times: readonly number[]; readonly wrong: number } {
  const [wrong, ...times] = output.trim().split('\n');
  return { times: numbers(times.join('\n')), wrong: Number(wrong) };
}

function numbers(output: string): number[] {
  const times = output.trim().split('\n').map(Number);
  if (times.some((us) => !(us > 0))) throw new Error(`no times were printed: ${output.trim().slice(-300) || 'nothing at all'}`);
  return times;
}

/** What a program printed. @throws with the end of its stderr when it fails. */
export function outputOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    let errors = '';
    child.stdout?.on('data', (chunk) => {
      output += chunk;
    });
    child.stderr?.on('data', (chunk) => {
      errors = (errors + chunk).slice(-2000);
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(output);
      else reject(new Error(`a measured program ended with ${code ?? signal}: ${errors.trim()}`));
    });
  });
}

/** Compiles a peer once per version of its source. */
function compiled(name: string, compiler: string, flags: readonly string[]): string {
  const source = join(PEERS, `${name}.c`);
  const hash = createHash('sha256')
    .update(readFileSync(source))
    .update([compiler, ...flags].join(' '))
    .digest('hex')
    .slice(0, 16);
  const xdg = process.env['XDG_CACHE_HOME'];
  const folder = join(xdg && isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'verbena');
  const program = join(folder, `${name}-${hash}`);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const unfinished = `${program}.${process.pid}`;
  const result = spawnSync(compiler, [...flags, '-o', unfinished, source], { encoding: 'utf8' });
  if (result.status !== 0) {
    rmSync(unfinished, { force: true });
    throw new Error(`${compiler} failed on ${name}.c: ${(result.stderr ?? result.error?.message ?? '').trim().slice(-300)}`);
  }
  renameSync(unfinished, program);
  return program;
}
