/** `verbena bench verbs`: the verbs, measured side by side with other systems. */

import { defineCommand, type Outcome, UsageError } from '../../command.js';
import { givenPair } from '../../cpus.js';
import { significant } from '../../size.js';
import { type BenchCase, MEMORIES, METRICS, MODES, OPS } from './case.js';
import { footprintText, measureFootprint } from './footprint.js';
import { type MeasureOptions, measure, PEER_NAMES } from './measure.js';
import { measureIdle } from './ours/verbena.js';
import { benchText } from './report.js';
import { measureSimulation, simulationText } from './simulated.js';
import { measureTargets, targetText } from './target-table.js';

/** Every call ends within 100 s; the rest is for starting and ending. */
const BUDGET_MS = 85_000;
/** When something hangs, everything is ended at this time. */
const LIMIT_MS = 95_000;
/** Starting a round of a peer that is a program of its own. */
const ROUND_OVERHEAD_MS = 500;
const ROUND_MS = 150;
const IDLE_MS = 2000;

/** The longest round for which everything fits the budget. */
function roundLength(rounds: number, subjects: number): number {
  return Math.max(20, Math.min(ROUND_MS, (BUDGET_MS * 0.7) / (rounds * subjects) - ROUND_OVERHEAD_MS));
}

export const benchVerbs = defineCommand({
  name: 'verbs',
  summary: 'measures the verbs, side by side with other systems',
  description: `Two processes, each pinned to a core, and with --peer other systems on the same cores. After a warm-up they take turns, at least five
rounds, in one run; a ratio is the median of the ratios of the rounds and says how many times better Verbena is: the peer's time over ours, or our bandwidth over
the peer's. 1 is level, above is ahead.

What is measured: latency is half a round trip, over batches of 1,000 (read and atomics: one operation, from post to completion);
percentiles are over batches. write: the target polls the last word, the sender reaps its completion; in the event and adaptive modes the target is told
by immediate data. send: both sides poll completion queues and repost. bandwidth and rate: a window of 64, a completion every 32nd. Payloads are
verified before and after the timing. GB is 10^9 bytes. footprint: shared memory per peer of RC, DC and UD. idle: CPU used while waiting.
The provider sim has no time of its own: what is measured there is packets and events per second of a core.

Peers: ucx and uct (ucx_perftest, in its best setting), openmpi, zeromq, messageport (worker threads), tcp and unix (node:net); for roce also ucx-tcp
(UCX over TCP), udp (a ping-pong of bare datagrams in C) and iperf3 (a stream of datagrams of a packet's size). One that is not
installed is named with the command that installs it; \`npm run setup:peers\` in a clone installs all of them.
The figures mean something only on a machine that does nothing else.`,
  options: {
    op: { type: 'choice', choices: OPS, default: 'write', summary: 'the operation' },
    metric: { type: 'choice', choices: [...METRICS, 'footprint', 'idle'], default: 'latency', summary: 'what to measure' },
    size: { type: 'size', default: 8, min: 1, max: 1 << 30, summary: 'payload of one operation' },
    mode: { type: 'choice', choices: MODES, default: 'poll', summary: 'how completions are waited for' },
    memory: { type: 'choice', choices: MEMORIES, default: 'arena', summary: 'device.alloc, or an ordinary ArrayBuffer' },
    provider: { type: 'string', default: 'shm', value: 'NAME', summary: 'the provider, as openDevice takes it' },
    peer: { type: 'list', choices: PEER_NAMES, default: [], value: 'NAME,...', summary: 'systems to measure beside, or all' },
    rounds: { type: 'integer', default: 11, min: 5, max: 50, summary: 'rounds of each system, in turn' },
    'round-ms': {
      type: 'integer',
      min: 10,
      max: 5000,
      value: 'MS',
      summary: 'length of one round; default: what fits, at most 150',
    },
    peers: { type: 'integer', default: 1000, min: 1, max: 10_000, summary: 'peers of --metric footprint' },
    cpus: { type: 'string', value: 'A,B', summary: 'the two CPUs to run on; default: two cores of one package' },
    all: { type: 'flag', summary: 'measure the whole table of targets against the peers that are installed' },
  },
  examples: [
    {
      line: 'verbena bench verbs --op write --metric latency --size 8 --peer ucx --json',
      note: 'A WRITE of 8 bytes beside UCX put_lat; one JSON document.',
    },
    {
      line: 'verbena bench verbs --op send --metric rate --peer ucx,openmpi,zeromq',
      note: 'Small messages per second beside C and Node systems.',
    },
    {
      line: 'verbena bench verbs --op read --metric bandwidth --size 1M --memory private --peer ucx',
      note: 'READ of 1 MiB out of an ordinary ArrayBuffer of another process.',
    },
    {
      line: 'verbena bench verbs --provider roce --op write --size 8 --peer udp,ucx-tcp',
      note: 'RoCEv2 on the loopback beside bare UDP and UCX over TCP.',
    },
    {
      line: 'verbena bench verbs --provider roce --op write --metric bandwidth --size 1M --peer iperf3,ucx-tcp',
      note: 'Its bandwidth beside what UDP carries with at most 1 % loss.',
    },
    { line: 'verbena bench verbs --provider sim', note: 'Packets and events per second of the simulated fabric.' },
    { line: 'verbena bench verbs --metric footprint', note: 'Bytes of shared memory per peer at 1,000 peers.' },
    { line: 'verbena bench verbs --all', note: 'The table of the README: must, aim, measured.' },
    { line: 'verbena bench verbs --provider roce --all', note: 'The same for RoCEv2: beside bare UDP, iperf3 and UCX over TCP.' },
  ],
  async run({ options, signal: interrupted, style, progress }): Promise<Outcome> {
    const signal = AbortSignal.any([interrupted, AbortSignal.timeout(LIMIT_MS)]);
    const cpus = givenPair(options.cpus);
    const { op, metric, size, mode, memory, provider, peer, rounds } = options;
    if (provider === 'sim') {
      const document = measureSimulation(size);
      return { document, text: () => simulationText(document.results) };
    }
    if (metric === 'footprint') {
      const document = await measureFootprint(provider, options.peers, cpus, signal, progress);
      return { document, text: () => footprintText(document, style) };
    }
    if (metric === 'idle') {
      const share = await measureIdle(provider, mode, cpus, options['round-ms'] ?? IDLE_MS, signal);
      const document = { results: [{ who: `verbena/${provider}`, metric, mode, unit: 'cores', value: share }] };
      return { document, text: `waiting in ${mode} mode takes ${significant(share * 100)} % of a core` };
    }
    const shared: MeasureOptions = {
      provider,
      peers: peer,
      rounds,
      roundMs: options['round-ms'] ?? roundLength(rounds, peer.length + 1),
      cpus,
      budgetMs: BUDGET_MS,
      signal,
      progress,
    };
    if (options.all) {
      const document = await measureTargets({ ...shared, roundMs: options['round-ms'] ?? 100 });
      const failed = document.rows.some((row) => row.verdict === 'below');
      return { document, text: () => targetText(document, style, true), exitCode: failed ? 1 : 0 };
    }
    if ((op === 'fetch-add' || op === 'cmp-swap') && size !== 8) throw new UsageError(`${op} works on 8 bytes: leave --size out`);
    const bench: BenchCase = { op, metric, size, mode, memory };
    const document = await measure(bench, shared);
    return { document, text: () => benchText(bench, document, style) };
  },
});
