/**
 * Open MPI, measured with a small program of ours (bench/peers/openmpi.c) that is compiled with its `mpicc` on first use. The setting is the
 * better of its defaults and its own shared-memory transport.
 */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { CpuPair } from '../../../cpus.js';
import { type BenchCase, batchValue, LATENCY_BATCH, ratioOf, SIGNAL_EVERY, WINDOW } from '../case.js';
import { findProgram } from '../child-program.js';
import { median } from '../statistics.js';
import type { Missing, Session, SessionDetails, Subject } from '../subject.js';
import { compilePeer, peerSource } from './compiled-peer.js';

const SOURCE = peerSource('openmpi.c');
const COMPILER = 'mpicc';
const LAUNCHER = 'mpirun';
const RUN_LIMIT_MS = 20_000;

/** The settings that are tried, as options of mpirun. */
const SETTINGS: readonly (readonly string[])[] = [[], ['--mca', 'pml', 'ob1', '--mca', 'btl', 'self,vader']];
/** Any number of cores is enough, root may run it (containers), and a waiting rank does not give its core away. */
const COMMON = ['-n', '2', '--bind-to', 'none', '--oversubscribe', '--mca', 'mpi_yield_when_idle', '0'];
const ENV = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };

/** Values of the batches that the program printed. Throws when it printed none. */
export function parseBatches(bench: BenchCase, output: string): number[] {
  const lines = output.trim().split('\n');
  const batch = Number(/^batch (\d+)$/.exec(lines[0])?.[1]);
  const times = lines.slice(1).map(Number);
  if (!(batch > 0) || times.length === 0 || times.some((us) => !(us > 0))) {
    throw new Error(`the Open MPI program printed no result: ${output.trim().slice(-300) || 'nothing at all'}`);
  }
  return times.map((us) => batchValue(bench, batch, us / 1000, bench.metric === 'latency'));
}

class OpenMpiSession implements Session {
  readonly #bench: BenchCase;
  readonly #program: string;
  readonly #cpus: CpuPair;
  readonly #signal: AbortSignal;
  #setting: readonly string[] = SETTINGS[0];
  #command = '';
  #raw = '';

  constructor(bench: BenchCase, cpus: CpuPair, signal: AbortSignal) {
    this.#bench = bench;
    this.#program = compilePeer(SOURCE, COMPILER);
    this.#cpus = cpus;
    this.#signal = signal;
  }

  #run(setting: readonly string[], durationMs: number): Promise<number[]> {
    const isLatency = this.#bench.metric === 'latency';
    const batch = isLatency ? LATENCY_BATCH : SIGNAL_EVERY * 32;
    const words = [isLatency ? 'latency' : 'stream', this.#bench.size, batch, WINDOW, Math.round(durationMs), ...this.#cpus];
    const args = [...COMMON, ...setting, this.#program, ...words.map(String)];
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(RUN_LIMIT_MS)]);
    return new Promise((resolve, reject) => {
      const child = spawn(LAUNCHER, args, { env: { ...process.env, ...ENV }, stdio: ['ignore', 'pipe', 'pipe'], signal });
      let output = '';
      let errors = '';
      child.stdout.on('data', (chunk) => {
        output += chunk;
      });
      child.stderr.on('data', (chunk) => {
        errors += chunk;
      });
      child.on('error', reject);
      child.on('close', (code) => {
        try {
          if (code !== 0) throw new Error(`mpirun ended with ${code}: ${errors.trim().slice(-300)}`);
          const values = parseBatches(this.#bench, output);
          this.#command = [LAUNCHER, ...args].join(' ');
          this.#raw = output.split('\n').slice(0, 8).join('\n');
          resolve(values);
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  async warmUp(durationMs: number): Promise<void> {
    let best: number | undefined;
    let failure: unknown;
    for (const setting of SETTINGS) {
      try {
        const value = median(await this.#run(setting, durationMs / SETTINGS.length));
        if (best !== undefined && ratioOf(this.#bench.metric, value, best) <= 1) continue;
        best = value;
        this.#setting = setting;
      } catch (error) {
        this.#signal.throwIfAborted();
        failure = error;
      }
    }
    if (best === undefined) throw failure;
  }

  round(durationMs: number): Promise<readonly number[]> {
    return this.#run(this.#setting, durationMs);
  }

  describe(): SessionDetails {
    const how = this.#bench.metric === 'latency' ? 'MPI_Send and MPI_Recv' : `MPI_Isend and MPI_Irecv, window ${WINDOW}`;
    return { what: how, command: this.#command, raw: this.#raw };
  }

  async close(): Promise<void> {}
}

export const openmpi: Subject = {
  who: 'openmpi',
  unfit: (bench) => {
    if (bench.mode !== 'poll') return 'Open MPI always polls; use --mode poll';
    return bench.op === 'send' || bench.op === 'write'
      ? undefined
      : `compared by its messages only, which are nothing like ${bench.op}`;
  },
  async missing(): Promise<Missing | undefined> {
    if (!existsSync(SOURCE))
      return { reason: 'the benchmark sources are not here: run it from a clone', install: 'npm run setup:peers' };
    if (findProgram(COMPILER) && findProgram(LAUNCHER)) return undefined;
    return { reason: 'mpicc or mpirun is not on PATH', install: 'apt-get install openmpi-bin libopenmpi-dev gcc' };
  },
  start: async (bench, cpus, signal) => new OpenMpiSession(bench, cpus, signal),
};
