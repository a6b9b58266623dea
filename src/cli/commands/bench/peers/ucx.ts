/**
 * UCX, measured with its own `ucx_perftest`: `ucx` is the protocol layer (UCP), `uct` the transport layer below it.
 *
 * Each round is one pair of server and client, pinned with `-c`. The setting is the best of several, found in the warm-up: UCP's defaults and
 * two choices of shared-memory transport; for UCT the transport and the way of handing over data. Latencies are the smaller of its
 * median and its mean; its "MB" is 2^20 bytes.
 */

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import type { CpuPair } from '../../../cpus.js';
import { HostFiles } from '../../../host-files.js';
import { type BenchCase, isRoundTrip, type Metric, ratioOf } from '../case.js';
import { findProgram } from '../child-program.js';
import type { Missing, Session, SessionDetails, Subject } from '../subject.js';

const PROGRAM = 'ucx_perftest';

/** One line of results. */
export interface PerftestResult {
  readonly iterations: number;
  /** Microseconds. Of a streaming test: time per message. */
  readonly percentileLatency: number;
  readonly overallLatency: number;
  /** Units of 2^20 bytes per second. */
  readonly overallBandwidth: number;
  /** Messages per second. */
  readonly overallRate: number;
}

/** Reads the output of `ucx_perftest -f -v`: a header line and a line of values. Throws when there is none. */
export function parsePerftest(output: string): PerftestResult {
  const lines = output.split('\n').map((line) => line.trim());
  const at = lines.findIndex((line) => line.startsWith('iterations,'));
  const names = lines[at]?.split(',') ?? [];
  const values = (lines[at + 1] ?? '').split(',').map(Number);
  const value = (pattern: RegExp) => values[names.findIndex((name) => pattern.test(name))];
  const result = {
    iterations: value(/^iterations$/),
    percentileLatency: value(/percentile/),
    overallLatency: value(/^overall_lat$/),
    overallBandwidth: value(/^overall_bw$/),
    overallRate: value(/^overall_mr$/),
  };
  if (at < 0 || Object.values(result).some((number) => !Number.isFinite(number))) {
    throw new Error(`ucx_perftest printed no result: ${output.trim().slice(-300) || 'nothing at all'}`);
  }
  return result;
}

/** The value of a result in the unit of the metric. */
export function perftestValue(metric: Metric, result: PerftestResult): number {
  if (metric === 'latency') return Math.min(result.percentileLatency, result.overallLatency);
  return metric === 'bandwidth' ? (result.overallBandwidth * 2 ** 20) / 1e9 : result.overallRate;
}

/** The UCP test that does what the case does, as near as UCX has one. */
export function ucpTest(bench: BenchCase): string {
  const suffix = bench.metric === 'latency' ? 'lat' : 'bw';
  if (bench.op === 'fetch-add') return 'ucp_fadd';
  if (bench.op === 'cmp-swap') return 'ucp_cswap';
  // perftest's put and get work on memory that UCX allocated as shared; ordinary memory moves through the tag protocols
  if (bench.op === 'send' || bench.memory === 'private') return `tag_${suffix}`;
  return bench.op === 'read' ? 'ucp_get' : `ucp_put_${suffix}`;
}

/** The UCT test that does what the case does. */
export function uctTest(bench: BenchCase): string {
  const suffix = bench.metric === 'latency' ? 'lat' : 'bw';
  const names = { send: `am_${suffix}`, write: `put_${suffix}`, read: 'get', 'fetch-add': 'fadd', 'cmp-swap': 'cswap' } as const;
  return names[bench.op];
}

interface Setting {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
}

function ucpSettings(): Setting[] {
  return [
    { name: 'defaults', env: {}, args: [] },
    ...['posix', 'sysv'].map((tl) => ({ name: `UCX_TLS=${tl},cma,self`, env: { UCX_TLS: `${tl},cma,self` }, args: [] })),
  ];
}

/** What two hosts without an RDMA network have. */
function tcpSettings(): Setting[] {
  return [{ name: 'UCX_TLS=tcp', env: { UCX_TLS: 'tcp' }, args: [] }];
}

function uctSettings(bench: BenchCase): Setting[] {
  const layouts =
    bench.op === 'fetch-add' || bench.op === 'cmp-swap' ? [[]] : bench.op === 'read' ? [['-D', 'bcopy']] : [[], ['-D', 'bcopy']];
  return ['posix', 'sysv'].flatMap((tl) =>
    layouts.map((layout) => {
      const args = ['-d', 'memory', '-x', tl, ...layout];
      return { name: args.join(' '), env: {}, args };
    }),
  );
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

/** Whether a TCP port of this machine is listened on, without connecting to it. */
export function isListening(port: number, files = new HostFiles()): boolean {
  const hex = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const tables = ['proc/net/tcp', 'proc/net/tcp6'].map((path) => files.text(path) ?? '');
  return tables.some((table) =>
    table.split('\n').some((line) => {
      const [, local, , state] = line.trim().split(/\s+/);
      return state === '0A' && local?.endsWith(hex);
    }),
  );
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

function launch(args: readonly string[], env: Readonly<Record<string, string>>, signal: AbortSignal) {
  const child = spawn(PROGRAM, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.on('error', (error) => resolve({ code: -1, output: error.message }));
    child.on('close', (code) => resolve({ code, output }));
  });
  return { child, ended };
}

const RUN_LIMIT_MS = 20_000;
const START_LIMIT_MS = 5000;
const WARM_UP_SHARE = 0.1;

class PerftestSession implements Session {
  readonly #bench: BenchCase;
  readonly #test: string;
  readonly #cpus: CpuPair;
  readonly #signal: AbortSignal;
  #settings: readonly Setting[];
  #iterationMs = 0;
  #raw = '';
  #command = '';

  constructor(bench: BenchCase, test: string, settings: readonly Setting[], cpus: CpuPair, signal: AbortSignal) {
    this.#bench = bench;
    this.#test = test;
    this.#settings = settings;
    this.#cpus = cpus;
    this.#signal = signal;
  }

  async #run(setting: Setting, iterations: number): Promise<PerftestResult> {
    const port = await freePort();
    const warmUp = Math.max(10, Math.round(iterations * WARM_UP_SHARE));
    const outstanding = !isRoundTrip(this.#bench.op) && this.#bench.metric === 'latency' ? ['-O', '1'] : [];
    const words = ['-t', this.#test, '-s', String(this.#bench.size), '-n', String(iterations), '-w', String(warmUp)];
    const shared = [...words, ...outstanding, ...setting.args, '-f', '-v', '-p', String(port)];
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(RUN_LIMIT_MS)]);
    const server = launch([...shared, '-c', String(this.#cpus[0])], setting.env, signal);
    try {
      const limit = performance.now() + START_LIMIT_MS;
      while (!isListening(port)) {
        if (server.child.exitCode !== null || performance.now() > limit) {
          server.child.kill('SIGKILL');
          throw new Error(`ucx_perftest did not start: ${(await server.ended).output.trim().slice(-300)}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      const clientArgs = ['127.0.0.1', ...shared, '-c', String(this.#cpus[1])];
      const client = await launch(clientArgs, setting.env, signal).ended;
      this.#signal.throwIfAborted();
      if (client.code !== 0) throw new Error(`ucx_perftest -t ${this.#test} failed: ${client.output.trim().slice(-300)}`);
      const result = parsePerftest(client.output);
      const prefix = Object.entries(setting.env).map(([name, value]) => `${name}=${value}`);
      this.#command = [...prefix, 'ucx_perftest', ...clientArgs].join(' ');
      this.#raw = client.output.trim();
      return result;
    } finally {
      server.child.kill('SIGKILL');
      await server.ended;
    }
  }

  #iterationsFor(durationMs: number): number {
    return Math.max(20, Math.round(durationMs / this.#iterationMs));
  }

  async #probe(setting: Setting, iterations: number): Promise<number> {
    const result = await this.#run(setting, iterations);
    const perIteration = isRoundTrip(this.#bench.op) && this.#bench.metric === 'latency' ? 2 : 1;
    this.#iterationMs = (result.overallLatency * perIteration) / 1000;
    return perftestValue(this.#bench.metric, result);
  }

  async warmUp(durationMs: number): Promise<void> {
    const few = this.#bench.size >= 65536 ? 200 : 5000;
    const probed: { setting: Setting; value: number }[] = [];
    const errors: Error[] = [];
    for (const setting of this.#settings) {
      try {
        const first = await this.#probe(setting, few);
        const second = await this.#probe(setting, this.#iterationsFor(durationMs / this.#settings.length));
        probed.push({ setting, value: ratioOf(this.#bench.metric, first, second) > 1 ? first : second });
      } catch (error) {
        this.#signal.throwIfAborted();
        errors.push(error as Error);
      }
    }
    if (probed.length === 0) throw errors[0];
    probed.sort((a, b) => (ratioOf(this.#bench.metric, a.value, b.value) > 1 ? -1 : 1));
    this.#settings = [probed[0].setting];
  }

  async round(durationMs: number): Promise<readonly number[]> {
    const result = await this.#run(this.#settings[0], this.#iterationsFor(durationMs));
    return [perftestValue(this.#bench.metric, result)];
  }

  describe(): SessionDetails {
    return { what: `${this.#test} (${this.#settings[0].name})`, command: this.#command, raw: this.#raw };
  }

  async close(): Promise<void> {}
}

const INSTALL = 'apt-get install ucx-utils';

function perftestSubject(
  who: string,
  test: (bench: BenchCase) => string,
  settings: (bench: BenchCase) => Setting[],
  unfit: (bench: BenchCase) => string | undefined,
): Subject {
  return {
    who,
    unfit: (bench) => (bench.mode === 'poll' ? unfit(bench) : 'ucx_perftest is measured polling; use --mode poll'),
    async missing(): Promise<Missing | undefined> {
      return findProgram(PROGRAM) ? undefined : { reason: 'ucx_perftest is not on PATH', install: INSTALL };
    },
    async start(bench, cpus, signal) {
      return new PerftestSession(bench, test(bench), settings(bench), cpus, signal);
    },
  };
}

const UCT_LONGEST = 8192;

export const ucx = perftestSubject('ucx', ucpTest, ucpSettings, () => undefined);
export const ucxTcp = perftestSubject('ucx-tcp', ucpTest, tcpSettings, () => undefined);
export const uct = perftestSubject('uct', uctTest, uctSettings, (bench) =>
  bench.size > UCT_LONGEST ? `UCT's shared-memory transports carry at most ${UCT_LONGEST} bytes in one message` : undefined,
);
