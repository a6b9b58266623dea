/**
 * `verbena bench sort | shuffle | groupby | join | wordcount`: whole jobs beside Spark, GNU sort, DuckDB, and beside our own TCP shuffle. Files are warm; starting
 * processes and sessions is not timed, for nobody. All take turns, round by round; the ratio is of medians: the peer's time over ours. Memory is that of our rank
 * that had most, and of all processes of a peer.
 */

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AnyCommand, type Context, defineCommand, type Outcome } from '../../command.js';
import { significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { median } from '../bench/statistics.js';
import { writeRows, writeSmall, writeText } from './bench-data.js';
import type { BenchArgument, BenchRound, Workload } from './bench-process.js';
import {
  type Contestant,
  findDuckDb,
  gnuSortVersion,
  missingSpark,
  openDuckDb,
  openGnuSort,
  openSpark,
  type PeerInput,
  writeParquet,
} from './peers.js';
import { RankProgram } from './ranks.js';
import { generateRecords, parseCount } from './sort.js';

const PROGRAM = new URL('./bench-process.js', import.meta.url);

/** What the figures are to be. */
const TARGETS: Readonly<Record<string, Readonly<Record<string, readonly [must: number, aim: number]>>>> = {
  sort: { spark: [3, 8], 'gnu-sort': [1, 2] },
  groupby: { spark: [4, 10], duckdb: [0.4, 1] },
  wordcount: { spark: [2, 5] },
  join: { spark: [2, 6] },
  shuffle: { 'sort-tcp': [1.4, 2.6] },
};

interface Result {
  readonly who: string;
  readonly workload: string;
  readonly ms: number;
  readonly rounds: readonly number[];
  readonly command?: string;
  readonly peakBytes?: number;
  readonly stagesMs?: readonly number[];
}

const COMMON = {
  ranks: { type: 'integer', default: 2, min: 1, max: 64, summary: 'processes of ours, and threads of the peers' },
  rounds: { type: 'integer', default: 3, min: 1, max: 20, summary: 'timed rounds, in turn' },
  long: { type: 'flag', summary: 'the size of the published figures, which may take longer than 100 s' },
} as const;

function peerOption(choices: readonly string[]) {
  return { type: 'list', choices, summary: 'who else is measured; default: all of them' } as const;
}

const SORT_PEERS = ['gnu-sort', 'spark'];
const SHUFFLE_PEERS = ['sort-tcp'];
const WORDCOUNT_PEERS = ['spark'];

/** Where the input is, for us and for the peers. */
interface Prepared {
  readonly ours: Readonly<Record<string, string>>;
  readonly theirs: Readonly<Record<string, string>>;
  readonly warm: Readonly<Record<string, string>>;
  readonly words: string;
  readonly bytes: number;
}

interface Setting {
  readonly workload: 'sort' | 'shuffle' | 'groupby' | 'join' | 'wordcount';
  readonly peers: readonly string[];
  prepare(folder: string, needsParquet: boolean): Promise<Prepared>;
}

/** Ours: ranks that stay, and do a round when they are asked to. */
async function openOurs(
  shuffle: 'rdma' | 'sort-tcp',
  workloads: readonly Workload[],
  input: Prepared,
  folder: string,
  context: Context,
  ranks: number,
): Promise<Contestant[]> {
  const argument: BenchArgument = {
    shuffle,
    input: input.ours,
    output: join(folder, `out-${shuffle}`),
    bytes: input.bytes,
    memoryBytes: 4 * 2 ** 30,
  };
  const { signal, progress } = context;
  const program = new RankProgram<BenchRound>(PROGRAM, { ranks, argument, signal, progress });
  for (const workload of workloads) await program.ask(workload); // it has warmed up
  return workloads.map((workload, i) => ({
    who:
      shuffle === 'sort-tcp'
        ? 'sort-tcp'
        : `verbena/${shuffle}${workload === 'wordcount-js' ? ' (functions in JavaScript)' : ''}`,
    round: () => program.ask(workload),
    close: async () => (i === 0 ? program.close() : undefined),
  }));
}

const PEERS: Readonly<Record<string, (input: PeerInput) => Promise<Contestant>>> = {
  spark: openSpark,
  duckdb: openDuckDb,
  'gnu-sort': openGnuSort,
};

/** All take turns, round by round, so that what else the machine does hits everybody. */
async function takeTurns(
  contestants: readonly Contestant[],
  rounds: number,
  workload: string,
  { signal, progress }: Context,
): Promise<{ results: Result[]; failed: Record<string, string> }> {
  const failed: Record<string, string> = {};
  const taken = contestants.map(() => [] as Awaited<ReturnType<Contestant['round']>>[]);
  for (let round = 0; round < rounds; round++) {
    for (const [i, { who, round: once }] of contestants.entries()) {
      if (failed[who] !== undefined) continue;
      progress(`round ${round + 1} of ${rounds}: ${who}`);
      try {
        taken[i].push(await once());
      } catch (error) {
        signal.throwIfAborted();
        if (i === 0) throw error;
        failed[who] = (error as Error).message;
      }
    }
  }
  const results = contestants.flatMap(({ who, command }, i): Result[] => {
    const times = taken[i].map(({ ms }) => ms);
    if (failed[who] !== undefined || times.length === 0) return [];
    const { stagesMs } = taken[i].at(-1) ?? {};
    return [
      {
        who,
        workload,
        ms: median(times),
        rounds: times,
        peakBytes: Math.max(...taken[i].map(({ peakBytes }) => peakBytes)),
        ...(command === undefined ? {} : { command }),
        ...(stagesMs === undefined ? {} : { stagesMs }),
      },
    ];
  });
  return { results, failed };
}

async function missing(peer: string): Promise<string | undefined> {
  if (peer === 'spark') return missingSpark();
  if (peer === 'duckdb') return (await findDuckDb()) ? undefined : 'npm install @duckdb/node-api';
  if (peer === 'gnu-sort') return gnuSortVersion() ? undefined : 'apt-get install coreutils';
  return undefined;
}

async function measure(
  setting: Setting,
  context: Context,
  options: { ranks: number; rounds: number; peer?: readonly string[] | undefined },
): Promise<Outcome> {
  const { progress, style, signal } = context;
  const folder = mkdtempSync(join(tmpdir(), 'verbena-bench-'));
  const contestants: Contestant[] = [];
  const absent: Record<string, string> = {};
  try {
    const wanted = options.peer ?? setting.peers;
    const present: string[] = [];
    for (const peer of wanted) {
      const install = await missing(peer);
      if (install === undefined) present.push(peer);
      else absent[peer] = install;
    }
    progress('making the input');
    const input = await setting.prepare(
      folder,
      present.some((peer) => peer === 'spark' || peer === 'duckdb'),
    );
    progress(`verbena, ${input.words}`);
    const { workload } = setting;
    const workloads: Workload[] = workload === 'wordcount' ? ['wordcount', 'wordcount-js'] : [workload];
    contestants.push(...(await openOurs('rdma', workloads, input, folder, context, options.ranks)));
    const scratch = join(folder, 'scratch');
    mkdirSync(scratch, { recursive: true });
    const unable: Record<string, string> = {};
    for (const peer of present) {
      progress(`${peer} warms up`);
      try {
        if (peer === 'sort-tcp') contestants.push(...(await openOurs(peer, [workload], input, folder, context, options.ranks)));
        else {
          const { theirs, warm } = input;
          contestants.push(await PEERS[peer]({ workload, input: theirs, warm, scratch, threads: options.ranks, signal }));
        }
      } catch (error) {
        signal.throwIfAborted();
        unable[peer] = (error as Error).message;
      }
    }
    const turns = await takeTurns(contestants, options.rounds, workload, context);
    const { results } = turns;
    const failed = { ...unable, ...turns.failed };
    const [first] = results;
    const ratios = Object.fromEntries(
      results
        .slice(1)
        .filter(({ who }) => !who.startsWith('verbena'))
        .map(({ who, ms }) => [who, Number((ms / first.ms).toPrecision(4))]),
    );
    const targets = TARGETS[setting.workload];
    const text = () => {
      const rows = results.map(({ who, ms, peakBytes }) => [
        who,
        `${significant(ms / 1000)} s`,
        ratios[who] === undefined ? '' : `${significant(ratios[who])}x`,
        targets[who] ? `${targets[who][0]}, ${targets[who][1]}` : '',
        peakBytes === undefined ? '' : `${significant(peakBytes / 2 ** 20)} MiB`,
      ]);
      const head = [
        { title: 'who' },
        { title: 'time', align: 'right' },
        { title: 'Verbena is', align: 'right' },
        { title: 'must, aim' },
        { title: 'most memory', align: 'right' },
      ] as const;
      return [
        `${style.bold(setting.workload)}  ${style.dim(`${input.words}, ${options.ranks} ranks`)}`,
        boxTable(head, rows, style),
        ...Object.entries(absent).map(([who, install]) => `missing ${who}: ${install}`),
        ...Object.entries(failed).map(([who, reason]) => `failed ${who}: ${reason}`),
      ].join('\n');
    };
    return {
      document: {
        workload: setting.workload,
        input: input.words,
        results,
        ratios,
        targets,
        missing: absent,
        failed,
        ranks: options.ranks,
      },
      text,
    };
  } finally {
    await Promise.allSettled(contestants.map((one) => one.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}

const sort = defineCommand({
  name: 'sort',
  summary: 'sorts records of 100 bytes, beside Spark and GNU sort',
  options: {
    ...COMMON,
    peer: peerOption(SORT_PEERS),
    records: { type: 'string', value: 'N', summary: 'how many; default 3M, with --long 10M' },
  },
  examples: [{ line: 'verbena bench sort --long --peer spark,gnu-sort', note: 'A gigabyte.' }],
  run: (context) => {
    const records = parseCount(context.options.records ?? (context.options.long ? '10M' : '3M'));
    return measure(
      {
        workload: 'sort',
        peers: SORT_PEERS,
        async prepare(folder) {
          const made = join(folder, 'records');
          await generateRecords(made, { records, seed: 1, text: true });
          await generateRecords(join(folder, 'warm'), { records: Math.min(records, 300_000), seed: 2, text: true });
          const input = { records: made };
          return {
            ours: input,
            theirs: input,
            warm: { records: join(folder, 'warm') },
            words: `${records} records, ${(records / 1e7).toPrecision(3)} GB`,
            bytes: records * 100,
          };
        },
      },
      context as unknown as Context,
      context.options,
    );
  },
});

const shuffle = defineCommand({
  name: 'shuffle',
  summary: 'moves data from map to reduce tasks and does nothing else: the rdma shuffle beside sort-tcp',
  options: { ...COMMON, peer: peerOption(SHUFFLE_PEERS), size: { type: 'size', default: 1e9, min: 1e6, summary: 'how much' } },
  examples: [{ line: 'verbena bench shuffle --size 1GB', note: 'One-sided READs beside files and sockets.' }],
  run: (context) =>
    measure(
      {
        workload: 'shuffle',
        peers: SHUFFLE_PEERS,
        prepare: async () => ({
          ours: {},
          theirs: {},
          warm: {},
          words: `${context.options.size} bytes`,
          bytes: context.options.size,
        }),
      },
      context as unknown as Context,
      context.options,
    ),
});

function rowsBench(
  workload: 'groupby' | 'join',
  summary: string,
  peers: readonly string[],
  standard: number,
  keys: number,
): AnyCommand {
  return defineCommand({
    name: workload,
    summary,
    options: {
      ...COMMON,
      peer: peerOption(peers),
      rows: { type: 'string', value: 'N', summary: `rows; default a quarter of ${standard / 1e6}M, with --long all` },
    },
    examples: [
      {
        line: `verbena bench ${workload} --long --peer ${peers.join(',')}`,
        note: `${standard / 1e6} million rows, ${keys / 1e6} million keys.`,
      },
    ],
    run: (context) => {
      const { long, rows: given, ranks } = context.options;
      const rows = given === undefined ? (long ? standard : standard / 4) : parseCount(given);
      const groups = Math.min(keys, rows);
      return measure(
        {
          workload,
          peers,
          async prepare(folder, needsParquet) {
            writeRows(join(folder, 'rows'), rows, groups, ranks);
            if (workload === 'join') writeSmall(join(folder, 'small'), groups, ranks);
            const theirs = { rows: join(folder, 'rows.parquet'), small: join(folder, 'small.parquet') };
            const warm = { rows: join(folder, 'warm.parquet'), small: theirs.small };
            if (needsParquet) {
              await writeParquet(theirs.rows, rows, groups, 'rows');
              await writeParquet(warm.rows, Math.min(rows, 500_000), groups, 'rows');
              await writeParquet(theirs.small, groups, groups, 'small');
            }
            return {
              ours: { rows: join(folder, 'rows'), small: join(folder, 'small') },
              theirs,
              warm,
              words: `${rows} rows, ${groups} keys`,
              bytes: rows * 12,
            };
          },
        },
        context as unknown as Context,
        context.options,
      );
    },
  });
}

const wordcount = defineCommand({
  name: 'wordcount',
  summary: 'counts the words of a text, beside Spark',
  options: {
    ...COMMON,
    peer: peerOption(WORDCOUNT_PEERS),
    size: { type: 'size', summary: 'bytes of text; default 50 MB, with --long 200 MB' },
  },
  examples: [{ line: 'verbena bench wordcount --long --peer spark', note: '200 MB of text.' }],
  run: (context) => {
    const bytes = context.options.size ?? (context.options.long ? 200e6 : 50e6);
    return measure(
      {
        workload: 'wordcount',
        peers: WORDCOUNT_PEERS,
        async prepare(folder) {
          writeText(join(folder, 'text'), bytes);
          writeText(join(folder, 'warm'), 5e6);
          const input = { text: join(folder, 'text') };
          return { ours: input, theirs: input, warm: { text: join(folder, 'warm') }, words: `${bytes} bytes of text`, bytes };
        },
      },
      context as unknown as Context,
      context.options,
    );
  },
});

export const datasetBenches: readonly AnyCommand[] = [
  sort,
  shuffle,
  rowsBench('groupby', 'sums by key, columnar, beside Spark and DuckDB', ['duckdb', 'spark'], 20e6, 1e6),
  rowsBench('join', 'joins a large and a small table, columnar, beside Spark and DuckDB', ['spark', 'duckdb'], 10e6, 1e6),
  wordcount,
];
