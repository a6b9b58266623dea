/**
 * What UDP carries on this machine: `iperf3 -u` with datagrams as long as a RoCE packet of the largest MTU. A value is the goodput that arrived;
 * the rate is the highest of those tried that loses at most 1 %.
 */

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import type { CpuPair } from '../../../cpus.js';
import type { BenchCase } from '../case.js';
import { findProgram, pinned } from '../child-program.js';
import type { Missing, Session, SessionDetails, Subject } from '../subject.js';
import { isListening } from './ucx.js';

const PROGRAM = 'iperf3';
/** BTH, 4096 bytes of payload, ICRC. */
const DATAGRAM_BYTES = 4112;
const MOST_LOSS = 0.01;
/** How often it looks whether it may send, microseconds: in the millisecond that it takes by itself more comes together than a socket queues. */
const PACING_US = 100;
const PROBES = 6;
const START_LIMIT_MS = 5000;
const RUN_LIMIT_MS = 15_000;
/** The shortest run that iperf3 makes. */
const RUN_S = 1;

interface Run {
  /** Bytes per second that arrived. */
  readonly goodput: number;
  readonly loss: number;
}

/** Reads the document of `iperf3 -u --json`. Throws when there is no result in it. */
export function parseIperf(output: string): Run {
  const document = JSON.parse(output) as {
    error?: string;
    end?: { sum?: { bits_per_second: number; lost_percent: number }; sum_received?: { bits_per_second: number } };
  };
  const sum = document.end?.sum;
  const lost = sum?.lost_percent ?? Number.NaN;
  const sent = sum?.bits_per_second ?? Number.NaN;
  if (document.error || !(sent > 0) || !(lost >= 0))
    throw new Error(`iperf3 gave no result: ${document.error ?? output.slice(-300)}`);
  const received = document.end?.sum_received?.bits_per_second || sent * (1 - lost / 100);
  return { goodput: received / 8, loss: lost / 100 };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

class IperfSession implements Session {
  readonly #cpus: CpuPair;
  readonly #signal: AbortSignal;
  /** Bits per second offered; 0: as many as it can. */
  #rate = 0;
  #command = '';
  #raw = '';

  constructor(cpus: CpuPair, signal: AbortSignal) {
    this.#cpus = cpus;
    this.#signal = signal;
  }

  #start(cpu: number, args: readonly string[], signal: AbortSignal) {
    const [command, ...words] = pinned([cpu], [PROGRAM, ...args]);
    const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'ignore'], signal, killSignal: 'SIGKILL' });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    const ended = new Promise<string>((resolve) => {
      child.on('error', (error) => resolve(JSON.stringify({ error: error.message })));
      child.on('close', () => resolve(output));
    });
    return { child, ended };
  }

  async #run(rate: number): Promise<Run> {
    const port = await freePort();
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(RUN_LIMIT_MS)]);
    const server = this.#start(this.#cpus[0], ['-s', '-1', '-p', String(port)], signal);
    try {
      const limit = performance.now() + START_LIMIT_MS;
      while (!isListening(port)) {
        if (server.child.exitCode !== null || performance.now() > limit) throw new Error('the iperf3 server did not start');
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      const words = [
        '-u',
        '-c',
        '127.0.0.1',
        '-p',
        port,
        '-l',
        DATAGRAM_BYTES,
        '-t',
        RUN_S,
        '-b',
        Math.round(rate),
        '--pacing-timer',
        PACING_US,
        '--json',
      ];
      const args = words.map(String);
      const output = await this.#start(this.#cpus[1], args, signal).ended;
      this.#signal.throwIfAborted();
      const run = parseIperf(output);
      this.#command = [PROGRAM, ...args].join(' ');
      this.#raw = `${(run.goodput / 1e9).toFixed(3)} GB/s received, ${(run.loss * 100).toFixed(2)} % lost`;
      return run;
    } finally {
      server.child.kill('SIGKILL');
      await server.ended;
    }
  }

  /** Finds the rate: from what gets through of everything, down and up by ever smaller steps. */
  async warmUp(): Promise<void> {
    const all = await this.#run(0);
    if (all.loss <= MOST_LOSS) return;
    let low = 0;
    let high = all.goodput * 8 * 1.5;
    let rate = all.goodput * 8;
    for (let probe = 0; probe < PROBES; probe++) {
      const { loss } = await this.#run(rate);
      if (loss <= MOST_LOSS) low = rate;
      else high = rate;
      rate = low === 0 ? rate * 0.6 : (low + high) / 2;
    }
    this.#rate = low || rate;
  }

  async round(): Promise<readonly number[]> {
    for (let tries = 1; ; tries++) {
      const run = await this.#run(this.#rate);
      if (run.loss <= MOST_LOSS) return [run.goodput / 1e9];
      if (this.#rate === 0) this.#rate = run.goodput * 8;
      // One loss may be the machine's: the rate is lowered at the second.
      else if (tries % 2 === 0) this.#rate *= 0.9;
    }
  }

  describe(): SessionDetails {
    return { what: `iperf3 -u, datagrams of ${DATAGRAM_BYTES} B, at most 1 % lost`, command: this.#command, raw: this.#raw };
  }

  async close(): Promise<void> {}
}

export const iperf3: Subject = {
  who: 'iperf3',
  unfit: ({ metric }: BenchCase) => (metric === 'bandwidth' ? undefined : 'it streams: --metric bandwidth'),
  async missing(): Promise<Missing | undefined> {
    return findProgram(PROGRAM) ? undefined : { reason: 'iperf3 is not on PATH', install: 'apt-get install iperf3' };
  },
  start: async (_bench, cpus, signal) => new IperfSession(cpus, signal),
};
