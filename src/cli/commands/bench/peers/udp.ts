/**
 * Bare UDP: datagrams of a RoCE packet's size back and forth between two C programs (bench/peers/udp.c). What a transport over UDP adds is
 * the difference. It spins where Verbena polls and sleeps where Verbena does.
 */

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { CpuPair } from '../../../cpus.js';
import { type BenchCase, batchValue, LATENCY_BATCH } from '../case.js';
import { findProgram } from '../child-program.js';
import type { Missing, Session, SessionDetails, Subject } from '../subject.js';
import { compilePeer, peerSource } from './compiled-peer.js';

const SOURCE = peerSource('udp.c');
const COMPILER = 'cc';
const RUN_LIMIT_MS = 20_000;
/** BTH, RETH and ICRC: what a WRITE of one packet has around its payload. */
const WRITE_OVERHEAD_BYTES = 32;
/** The largest payload of a packet. */
const LARGEST_MTU = 4096;

/** Values of the batches that the program printed. Throws when it printed none. */
export function parseUdp(bench: BenchCase, output: string): number[] {
  const lines = output.trim().split('\n');
  const batch = Number(/^batch (\d+)$/.exec(lines[0])?.[1]);
  const times = lines.slice(1).map(Number);
  if (!(batch > 0) || times.length === 0 || times.some((us) => !(us > 0))) {
    throw new Error(`the UDP program printed no result: ${output.trim().slice(-300) || 'nothing at all'}`);
  }
  return times.map((us) => batchValue(bench, batch, us / 1000, true));
}

class UdpSession implements Session {
  readonly #bench: BenchCase;
  readonly #program = compilePeer(SOURCE, COMPILER);
  readonly #cpus: CpuPair;
  readonly #signal: AbortSignal;
  #command = '';
  #raw = '';

  constructor(bench: BenchCase, cpus: CpuPair, signal: AbortSignal) {
    this.#bench = bench;
    this.#cpus = cpus;
    this.#signal = signal;
  }

  get #way(): string {
    return this.#bench.mode === 'poll' ? 'spin' : 'block';
  }

  async warmUp(durationMs: number): Promise<void> {
    await this.round(durationMs);
  }

  round(durationMs: number): Promise<readonly number[]> {
    const bytes = this.#bench.size + WRITE_OVERHEAD_BYTES;
    const args = [this.#way, '127.0.0.1', bytes, LATENCY_BATCH, Math.round(durationMs), ...this.#cpus].map(String);
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(RUN_LIMIT_MS)]);
    return new Promise((resolve, reject) => {
      const child = spawn(this.#program, args, { stdio: ['ignore', 'pipe', 'inherit'], signal, killSignal: 'SIGKILL' });
      let output = '';
      child.stdout.on('data', (chunk) => {
        output += chunk;
      });
      child.on('error', reject);
      child.on('close', (code) => {
        try {
          if (code !== 0) throw new Error(`the UDP program ended with ${code}`);
          const values = parseUdp(this.#bench, output);
          this.#command = [this.#program, ...args].join(' ');
          this.#raw = output.split('\n').slice(0, 8).join('\n');
          resolve(values);
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  describe(): SessionDetails {
    return { what: `sendto and recvfrom, ${this.#way}`, command: this.#command, raw: this.#raw };
  }

  async close(): Promise<void> {}
}

export const udp: Subject = {
  who: 'udp',
  unfit: (bench) => {
    if (bench.metric !== 'latency' || (bench.op !== 'write' && bench.op !== 'send'))
      return 'it plays ping-pong: --metric latency';
    return bench.size > LARGEST_MTU ? `one datagram carries one packet, at most ${LARGEST_MTU} bytes` : undefined;
  },
  async missing(): Promise<Missing | undefined> {
    if (!existsSync(SOURCE))
      return { reason: 'the benchmark sources are not here: run it from a clone', install: 'npm run setup:peers' };
    return findProgram(COMPILER)
      ? undefined
      : { reason: 'there is no C compiler on PATH', install: 'apt-get install gcc libc6-dev' };
  },
  start: async (bench, cpus, signal) => new UdpSession(bench, cpus, signal),
};
