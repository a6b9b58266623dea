/** `verbena bench tag|am|stream|put|get`: messaging, measured side by side with other systems. */

import { type Command, defineCommand, type OptionSpecs, type Outcome, UsageError } from '../../command.js';
import { type CpuPair, givenPair } from '../../cpus.js';
import { significant } from '../../size.js';
import { alternate } from '../bench/alternate.js';
import { MEMORIES, METRICS } from '../bench/case.js';
import { grpc, tcp, unix, zeromq } from '../bench/peers/node-messages.js';
import { openmpi } from '../bench/peers/openmpi.js';
import { ucx } from '../bench/peers/ucx.js';
import { type BenchDocument, benchDocument, benchText } from '../bench/report.js';
import type { Missing, Subject } from '../bench/subject.js';
import { APIS, MESSAGING_OPS, type MessagingCase, type MessagingOp, peerCase } from './messaging-case.js';
import { messagingSubject, openMessagingPair } from './messaging-subject.js';

const PEERS: readonly Subject[] = [ucx, openmpi, zeromq, grpc, tcp, unix];
const BUDGET_MS = 85_000;
const ROUND_OVERHEAD_MS = 500;
const IDLE_MS = 2000;

const SUMMARIES: Readonly<Record<MessagingOp, string>> = {
  tag: 'measures tagged messages',
  am: 'measures active messages',
  stream: 'measures the byte stream (promises only)',
  put: 'measures put into remote memory',
  get: 'measures get from remote memory',
};

interface MeasureOptions {
  readonly peers: readonly string[];
  readonly rounds: number;
  readonly roundMs: number | undefined;
  readonly cpus: CpuPair;
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/** Measures one case beside the peers that can take part. */
export async function measureMessaging(bench: MessagingCase, options: MeasureOptions): Promise<BenchDocument> {
  const missing: Record<string, Missing> = {};
  const skipped: Record<string, string> = {};
  const subjects = [messagingSubject(bench)];
  const theirs = peerCase(bench);
  for (const peer of PEERS.filter((candidate) => options.peers.includes(candidate.who))) {
    const reason = peer.unfit(theirs);
    const lack = reason === undefined ? await peer.missing() : undefined;
    if (reason !== undefined) skipped[peer.who] = reason;
    else if (lack) missing[peer.who] = lack;
    else subjects.push(peer);
  }
  const fits = (BUDGET_MS * 0.7) / (options.rounds * subjects.length) - ROUND_OVERHEAD_MS;
  const run = await alternate(theirs, subjects, {
    ...options,
    roundMs: options.roundMs ?? Math.max(20, Math.min(150, fits)),
    deadline: performance.now() + BUDGET_MS,
  });
  const document = benchDocument(theirs, run, { missing, skipped }, options.cpus);
  // Peers measure the nearest thing they have; the document names the operation that was asked for.
  return { ...document, results: document.results.map((result) => ({ ...result, op: bench.op as never })) };
}

const OPTIONS = {
  metric: { type: 'choice', choices: [...METRICS, 'idle'], default: 'latency', summary: 'what to measure' },
  size: { type: 'size', default: 8, min: 1, max: 1 << 30, summary: 'payload of one operation' },
  api: { type: 'choice', choices: APIS, default: 'poll', summary: 'the synchronous form, or promises' },
  memory: { type: 'choice', choices: MEMORIES, default: 'arena', summary: 'context.alloc, or an ordinary ArrayBuffer' },
  engine: { type: 'string', default: 'shm', value: 'NAME', summary: 'the device, as openContext takes it; several as shm,roce' },
  peer: {
    type: 'list',
    choices: PEERS.map((peer) => peer.who),
    default: [],
    value: 'NAME,...',
    summary: 'systems to measure beside, or all',
  },
  rounds: { type: 'integer', default: 11, min: 5, max: 50, summary: 'rounds of each system, in turn' },
  'round-ms': {
    type: 'integer',
    min: 10,
    max: 5000,
    value: 'MS',
    summary: 'length of one round; default: what fits, at most 150',
  },
  cpus: { type: 'string', value: 'A,B', summary: 'the two CPUs to run on; default: two cores of one package' },
} as const satisfies OptionSpecs;

function command(op: MessagingOp): Command<typeof OPTIONS> {
  return defineCommand({
    name: op,
    summary: SUMMARIES[op],
    description:
      `Two processes, each pinned to a core, and with --peer other systems on the same cores, in turn. Latency is half a round trip
(get: one operation) over batches of 1,000; bandwidth and rate keep a window of 64. Payloads are verified before and after the timing. idle: the share of a
core that a waiting process takes.`.replace(/\n/g, ' '),
    options: OPTIONS,
    examples: [
      { line: `verbena bench ${op} --metric latency --size 8 --peer ucx --json`, note: 'Beside UCX, one JSON document.' },
      { line: `verbena bench ${op} --metric bandwidth --size 1M --memory private`, note: 'Ordinary ArrayBuffers.' },
    ],
    async run({ options, signal, style, progress }): Promise<Outcome> {
      const { metric, size, memory, engine, peer, rounds } = options;
      const api = op === 'stream' || metric === 'idle' ? 'promise' : options.api;
      if (op === 'am' && api === 'promise' && metric !== 'idle') {
        throw new UsageError('active messages are measured with --api poll: their handlers run from poll');
      }
      const cpus = givenPair(options.cpus);
      const bench: MessagingCase = { op, metric: metric === 'idle' ? 'latency' : metric, size, api, memory, engine };
      if (metric === 'idle') {
        const pair = await openMessagingPair(bench, cpus, signal);
        try {
          const shares = await Promise.all(pair.map((child) => child.request<number>('idle', IDLE_MS)));
          const value = Math.max(...shares);
          const document = { results: [{ who: `verbena/${engine}`, op, metric, unit: 'cores', value }] };
          return { document, text: `waiting takes ${significant(value * 100)} % of a core` };
        } finally {
          await Promise.all(pair.map((child) => child.close()));
        }
      }
      const document = await measureMessaging(bench, {
        peers: peer,
        rounds,
        roundMs: options['round-ms'],
        cpus,
        signal,
        progress,
      });
      return { document, text: () => benchText(peerCase(bench), document, style) };
    },
  });
}

/** `verbena bench tag`, `am`, `stream`, `put`, `get`. */
export const benchMessaging: readonly Command<typeof OPTIONS>[] = MESSAGING_OPS.map(command);
