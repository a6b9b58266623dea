/** `verbena bench ps`: push and pull of parameter servers, beside ZeroMQ with the same payloads, and beside what the cost formula says. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServerMode } from '../../../train/index.js';
import { type Context, defineCommand, type OptionSpecs, type Outcome } from '../../command.js';
import { allowedCpus } from '../../cpus.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { ChildProgram } from '../bench/child-program.js';
import { median, summarize } from '../bench/statistics.js';
import type { RankOpen, RoundTimes } from './server-rank.js';
import type { LinkCost } from './simulated-servers.js';
import { missingZeroMq, runZeroMq, type ZeroMqWay } from './zeromq-server-peer.js';

const PROGRAM = new URL('./server-rank.js', import.meta.url);
const LIMIT_MS = 100_000;
const WAYS: readonly ZeroMqWay[] = ['plain', 'messages'];
/** Copies of a push and a pull through sockets, array to array: into the message, into the kernel, out of it, out of the message; twice. */
const SOCKET_COPIES = 8;

const OPTIONS = {
  metric: {
    type: 'choice',
    choices: ['latency', 'throughput', 'cost'],
    default: 'latency',
    summary:
      'push and pull of one worker; bytes a second of several, asynchronously; or time per direction on simulated links of 1 Gb/s, against the formula',
  },
  size: { type: 'size', default: 1 << 22, min: 64, max: 1 << 28, summary: 'bytes of the gradient' },
  workers: { type: 'integer', default: 2, min: 2, max: 16, summary: 'throughput: workers, a process each' },
  rounds: { type: 'integer', default: 7, min: 1, max: 50, summary: 'rounds of each system, in turn' },
  'round-ms': { type: 'integer', default: 400, min: 50, max: 10_000, summary: 'length of a round' },
  peer: { type: 'list', choices: ['zeromq'], default: [], value: 'NAME,...', summary: 'what to measure beside' },
} as const satisfies OptionSpecs;

type PsContext = Context<typeof OPTIONS>;

export const benchPs = defineCommand({
  name: 'ps',
  summary: 'parameter servers: push and pull beside ZeroMQ, and against the cost formula',
  description:
    'The worker pushes a gradient, the server subtracts it times a rate from the parameters, the worker pulls these. Both systems do all of it; results are checked. ZeroMQ\n' +
    'is a C program with REQ sockets and a REP socket over ipc, in the better of two ways: arrays (8 copies), or messages that are sent and read in place (6).',
  options: OPTIONS,
  examples: [
    { line: 'verbena bench ps --size 4M --peer zeromq', note: 'Beside ZeroMQ.' },
    {
      line: 'verbena bench ps --metric throughput --workers 4 --peer zeromq',
      note: 'Four workers that do not wait for each other.',
    },
    { line: 'verbena bench ps --metric cost', note: 'Time per direction against max(n/b, p n/(k b)).' },
  ],
  run: (context) => ({ latency, throughput, cost })[context.options.metric](context),
});

/** A server and workers as processes of their own. */
class Fleet {
  readonly workers: ChildProgram[];
  readonly server: ChildProgram;
  readonly #directory = mkdtempSync(join(tmpdir(), 'verbena-bench-ps-'));

  constructor(workers: number, signal: AbortSignal) {
    const start = () => new ChildProgram(PROGRAM, { cpus: allowedCpus(), signal });
    this.server = start();
    this.workers = Array.from({ length: workers }, start);
  }

  async open(bytes: number, mode: ServerMode): Promise<void> {
    const ranks = [this.server, ...this.workers];
    const shape = {
      directory: this.#directory,
      size: ranks.length,
      servers: [0],
      workers: this.workers.map((_, worker) => 1 + worker),
      floats: Math.max(16, bytes >> 2),
      settings: { mode, optimizer: { kind: 'sgd' } } as const,
    };
    await Promise.all(ranks.map((rank, r) => rank.request('open', { ...shape, rank: r } satisfies RankOpen)));
  }

  /** Times of all workers, one after the other. */
  async steps(count: number): Promise<RoundTimes> {
    const all = await Promise.all(this.workers.map((worker) => worker.request<RoundTimes>('steps', count)));
    return {
      roundTripUs: all.flatMap(({ roundTripUs }) => roundTripUs),
      pushUs: all.flatMap(({ pushUs }) => pushUs),
    };
  }

  /** `times`: how many pushes there are for each of a worker. */
  async check(times: number): Promise<void> {
    for (const worker of this.workers) {
      if (!(await worker.request<boolean>('right', times))) throw new Error('the parameters are not what the pushes make them');
    }
  }

  /**
   * From the counters of workers and servers, per push and pull: how often the payload went from one memory to another by READ (`transfers`), and how often its bytes
   * were handled beyond once each way (`copies`).
   */
  async copies(bytes: number): Promise<{ transfers: number; copies: number }> {
    const pulls = await Promise.all(this.workers.map((worker) => worker.request<number>('workerBytes')));
    const { mapped, read } = await this.server.request<{ mapped: number; read: number }>('serverBytes');
    // The first pull of a worker and that of the check came without a push.
    const pulled = pulls.reduce((sum, one) => sum + one - 2 * bytes, 0);
    const turns = pulled / bytes;
    return { transfers: (pulled + read) / bytes / turns, copies: (pulled + read + mapped) / bytes / turns - 2 };
  }

  async close(): Promise<void> {
    await Promise.all([...this.workers, this.server].map((program) => program.close()));
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** As many steps as fill a round. */
async function calibrate(fleet: Fleet, roundMs: number): Promise<number> {
  await fleet.steps(20);
  const { roundTripUs } = await fleet.steps(20);
  return Math.max(10, Math.round((1e3 * roundMs) / median(roundTripUs)));
}

/** ZeroMQ when it was asked for and is here; what is missing otherwise. */
function peerOf(context: PsContext): { peer: boolean; missing: Record<string, string> } {
  const asked = context.options.peer.includes('zeromq');
  const install = asked ? missingZeroMq() : undefined;
  return { peer: asked && install === undefined, missing: install === undefined ? {} : { zeromq: install } };
}

const right = { align: 'right' } as const;
const missingLines = (missing: Record<string, string>) => Object.entries(missing).map(([who, how]) => `missing ${who}: ${how}`);

async function latency(context: PsContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const { size, rounds } = options;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
  const { peer, missing } = peerOf(context);
  const fleet = new Fleet(1, signal);
  try {
    await fleet.open(size, 'sync');
    const count = await calibrate(fleet, options['round-ms']);
    const ours: number[][] = [];
    const pushes: number[][] = [];
    const theirs = new Map<ZeroMqWay, number[][]>(WAYS.map((way) => [way, []]));
    for (let round = 0; round < rounds; round++) {
      const times = await fleet.steps(count);
      ours.push([...times.roundTripUs]);
      pushes.push([...times.pushUs]);
      if (peer) {
        for (const way of WAYS) theirs.get(way)?.push(await runZeroMq(size, options['round-ms'] / 2, way, 1, signal));
      }
      progress(`round ${round + 1} of ${rounds}`);
    }
    await fleet.check(1);
    const { transfers, copies } = await fleet.copies(4 * Math.max(16, size >> 2));
    const row = (who: string, values: number[][], copied: number, more: object) => {
      const { min, p50, p99 } = summarize(values);
      const gigabytesPerSecond = (2 * size) / p50 / 1e3;
      const what = { who, op: 'push+pull', size, metric: 'latency', unit: 'us' };
      return { ...what, min, p50, p99, gigabytesPerSecond, copies: copied, rounds, ...more };
    };
    const push = summarize(pushes).p50;
    const results = [row('verbena/shm', ours, copies, { pushUs: push, transfers })];
    const ratios: Record<string, number> = {};
    if (peer) {
      const ways = WAYS.map((way) => ({ way, values: theirs.get(way) as number[][] }));
      const best = ways.reduce((a, b) => (summarize(a.values).p50 <= summarize(b.values).p50 ? a : b));
      const zeromqCopies = best.way === 'plain' ? SOCKET_COPIES : SOCKET_COPIES - 2;
      const each = Object.fromEntries(ways.map(({ way, values }) => [way, summarize(values).p50]));
      results.push(row('zeromq', best.values, zeromqCopies, { way: best.way, p50ByWay: each }));
      ratios['zeromq'] = Number((results[1].p50 / results[0].p50).toPrecision(4));
      ratios['zeromq, arrays'] = Number((each['plain'] / results[0].p50).toPrecision(4));
    }
    const text = () => {
      const rows = results.map((result) => [
        result.who,
        `${significant(result.p50)} us`,
        `${significant(result.gigabytesPerSecond)} GB/s`,
        String(Math.round(result.copies)),
        ratios[result.who] === undefined ? '' : `${significant(ratios[result.who])}x`,
      ]);
      const titles = [
        { title: 'who' },
        ...['push+pull', 'both ways', 'copies', 'Verbena is'].map((title) => ({ title, ...right })),
      ];
      return [
        `${style.bold(`push and pull of ${formatSize(size)}`)}  ${style.dim(`one worker, one server, ${rounds} rounds in turn`)}`,
        boxTable(titles, rows, style),
        style.dim(
          `of ours ${significant(push)} us until the push is applied; ${significant(transfers)} transfer for both ways: the update reads the gradient where it lies, and new parameters go once to the worker`,
        ),
        ...(peer ? [style.dim(`ZeroMQ between arrays (8 copies): Verbena is ${significant(ratios['zeromq, arrays'])}x`)] : []),
        ...missingLines(missing),
      ].join('\n');
    };
    return { document: { results, ratios, missing }, text };
  } finally {
    await fleet.close();
  }
}

async function throughput(context: PsContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const { size, rounds, workers } = options;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
  const { peer, missing } = peerOf(context);
  const fleet = new Fleet(workers, signal);
  try {
    await fleet.open(size, 'async');
    const count = await calibrate(fleet, options['round-ms']);
    const rates = new Map<string, number[]>([['verbena/shm', []]]);
    for (let round = 0; round < rounds; round++) {
      const begin = performance.now();
      await fleet.steps(count);
      const seconds = (performance.now() - begin) / 1e3;
      rates.get('verbena/shm')?.push((2 * size * workers * count) / seconds / 1e9);
      for (const way of peer ? WAYS : []) {
        const [us] = await runZeroMq(size, options['round-ms'] / 2, way, workers, signal);
        const who = `zeromq ${way}`;
        rates.set(who, [...(rates.get(who) ?? []), (2 * size) / us / 1e3]);
      }
      progress(`round ${round + 1} of ${rounds}`);
    }
    await fleet.check(workers);
    const results = [...rates].map(([who, values]) => ({
      who,
      op: 'push+pull',
      size,
      metric: 'throughput',
      unit: 'GB/s',
      p50: median(values),
      workers,
      rounds,
    }));
    const [ours, ...theirs] = results;
    const best = Math.max(...theirs.map(({ p50 }) => p50));
    const ratios: Record<string, number> = peer ? { zeromq: Number((ours.p50 / best).toPrecision(4)) } : {};
    const text = () =>
      [
        `${style.bold(`push and pull of ${formatSize(size)}, both ways together`)}  ${style.dim(`${workers} workers that do not wait for each other, one server`)}`,
        boxTable(
          [{ title: 'who' }, { title: 'throughput', ...right }, { title: 'Verbena is', ...right }],
          results.map(({ who, p50 }) => [
            who,
            `${significant(p50)} GB/s`,
            who === ours.who ? '' : `${significant(ours.p50 / p50)}x`,
          ]),
          style,
        ),
        ...missingLines(missing),
      ].join('\n');
    return { document: { results, ratios, missing }, text };
  } finally {
    await fleet.close();
  }
}

/** Workers and servers that are measured. */
const SHAPES: readonly (readonly [number, number])[] = [
  [1, 1],
  [2, 1],
  [2, 2],
  [4, 1],
  [4, 2],
  [4, 4],
];
/** What travels: enough for headers and latency to count little, and few enough packets to simulate. */
const LINK_BYTES = 1 << 18;
const LINK_BITS_PER_SECOND = 1e9;

async function cost({ style, progress }: PsContext): Promise<Outcome> {
  const { measureOnLinks } = await import('./simulated-servers.js');
  const measured: LinkCost[] = [];
  for (const [workers, servers] of SHAPES) {
    progress(`${workers} workers, ${servers} servers`);
    measured.push(await measureOnLinks(workers, servers, LINK_BYTES, LINK_BITS_PER_SECOND));
  }
  const results = measured.map((one) => ({
    ...one,
    pushError: one.pushUs / one.predictedUs - 1,
    pullError: one.pullUs / one.predictedUs - 1,
  }));
  const document = { size: LINK_BYTES, bitsPerSecond: LINK_BITS_PER_SECOND, results };
  const percent = (error: number) => `${error < 0 ? '' : '+'}${(100 * error).toFixed(1)} %`;
  const text = () =>
    [
      `${style.bold(`time per direction, ${formatSize(LINK_BYTES)} on links of 1 Gb/s`)}  ${style.dim('predicted: max(n/b, p n/(k b))')}`,
      boxTable(
        ['workers', 'servers', 'predicted', 'push', 'error', 'pull', 'error'].map((title) => ({
          title,
          align: 'right' as const,
        })),
        results.map((one) => [
          String(one.workers),
          String(one.servers),
          `${significant(one.predictedUs)} us`,
          `${significant(one.pushUs)} us`,
          percent(one.pushError),
          `${significant(one.pullUs)} us`,
          percent(one.pullError),
        ]),
        style,
      ),
      style.dim('simulated links, shipping servers and workers; headers of packets are 4 %, the rest is latency'),
    ].join('\n');
  return { document, text };
}
