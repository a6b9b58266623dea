/**
 * `verbena bench sort | shuffle | groupby | join | wordcount | rows`: whole jobs beside Spark, GNU sort, DuckDB, and beside our own TCP shuffle. Files are warm; starting
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
import type { BenchArgument, BenchRound } from './bench-process.js';
import {
  type Contestant,
  findDuckDb,
  gnuSortVersion,
  missingSpark,
  openDuckDb,
  openGnuSort,
  openSpark,
  type PeerInput,
  type Work,
  writeParquet,
} from './peers.js';
import { RankProgram } from './ranks.js';
import { ROW_WORK } from './row-work.js';
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
  readonly work: Work;
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
const ROW_PEERS = ['spark'];

/** Where the input is, for us and for the peers. */
interface Prepared {
  readonly ours: Readonly<Record<string, string>>;
  readonly theirs: Readonly<Record<string, string>>;
  readonly warm: Readonly<Record<string, string>>;
  readonly words: string;
  readonly bytes: number;
}

interface Setting {
  readonly name: 'sort' | 'shuffle' | 'groupby' | 'join' | 'wordcount' | 'rows';
  readonly works: readonly Work[];
  readonly peers: readonly string[];
  prepare(folder: string, needsParquet: boolean): Promise<Prepared>;
}

/** Ours: ranks that stay, and do a round when they are asked to. */
async function openOurs(
  shuffle: 'rdma' | 'sort-tcp',
  works: readonly Work[],
  input: Prepared,
  folder: string,
  context: Context,
  ranks: number,
): Promise<Contestant> {
  const argument: BenchArgument = {
    shuffle,
    input: input.ours,
    output: join(folder, `out-${shuffle}`),
    bytes: input.bytes,
    memoryBytes: 4 * 2 ** 30,
  };
  const { signal, progress } = context;
  const program = new RankProgram<BenchRound>(PROGRAM, { ranks, argument, signal, progress });
  const round = async ({ name, answer }: Work) => {
    const done = await program.ask(name);
    if (answer !== undefined && done.answer !== answer) throw new Error(`${name} gave ${done.answer} rows instead of ${answer}`);
    return done;
  };
  for (const work of works) await round(work); // it has warmed up
  return { who: shuffle === 'sort-tcp' ? shuffle : `verbena/${shuffle}`, round, close: () => program.close() };
}

const PEERS: Readonly<Record<string, (input: PeerInput) => Promise<Contestant>>> = {
  spark: openSpark,
  duckdb: openDuckDb,
  'gnu-sort': openGnuSort,
};

/** All take turns, round by round, so that what else the machine does hits everybody. The first one's failure is everybody's. */
async function takeTurns(
  contestants: readonly Contestant[],
  works: readonly Work[],
  rounds: number,
  { signal, progress }: Context,
): Promise<{ results: Result[]; failed: Record<string, string> }> {
  const failed: Record<string, string> = {};
  const turns = works.flatMap((work) =>
    contestants.map((one) => ({ work, one, taken: [] as Awaited<ReturnType<Contestant['round']>>[] })),
  );
  for (let round = 0; round < rounds; round++) {
    for (const { work, one, taken } of turns) {
      if (failed[one.who] !== undefined) continue;
      progress(`round ${round + 1} of ${rounds}: ${[work.words, one.who].filter(Boolean).join(', ')}`);
      try {
        taken.push(await one.round(work));
      } catch (error) {
        signal.throwIfAborted();
        if (one === contestants[0]) throw error;
        failed[one.who] = (error as Error).message;
      }
    }
  }
  const results = turns
    .filter(({ one }) => failed[one.who] === undefined)
    .map(({ work, one: { who, command }, taken }): Result => {
      const times = taken.map(({ ms }) => ms);
      const { stagesMs } = taken[taken.length - 1];
      return {
        who,
        work,
        ms: median(times),
        rounds: times,
        peakBytes: Math.max(...taken.map(({ peakBytes }) => peakBytes)),
        ...(command === undefined ? {} : { command }),
        ...(stagesMs === undefined ? {} : { stagesMs }),
      };
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
    const { works } = setting;
    contestants.push(await openOurs('rdma', works, input, folder, context, options.ranks));
    const scratch = join(folder, 'scratch');
    mkdirSync(scratch, { recursive: true });
    const unable: Record<string, string> = {};
    for (const peer of present) {
      progress(`${peer} warms up`);
      try {
        if (peer === 'sort-tcp') contestants.push(await openOurs(peer, works, input, folder, context, options.ranks));
        else {
          const { theirs, warm } = input;
          contestants.push(await PEERS[peer]({ works, input: theirs, warm, scratch, threads: options.ranks, signal }));
        }
      } catch (error) {
        signal.throwIfAborted();
        unable[peer] = (error as Error).message;
      }
    }
    const turns = await takeTurns(contestants, works, options.rounds, context);
    const { results } = turns;
    const failed = { ...unable, ...turns.failed };
    /** A peer's time over ours for the same work; undefined for ours. */
    const ratioOf = ({ who, work, ms }: Result) => {
      const own = results.find((result) => result.work === work) as Result;
      return own.who === who ? undefined : Number((ms / own.ms).toPrecision(4));
    };
    const ratios = Object.fromEntries(
      results.flatMap((result) => {
        const ratio = ratioOf(result);
        return ratio === undefined ? [] : [[[result.who, result.work.words].filter(Boolean).join(', '), ratio]];
      }),
    );
    const targets = TARGETS[setting.name] ?? {};
    const text = () => {
      const rows = results.map((result) => {
        const { who, work, ms, peakBytes } = result;
        const ratio = ratioOf(result);
        const target = work.words === '' ? targets[who] : undefined;
        return [
          ...(works.length > 1 ? [ratio === undefined ? work.words || work.name : ''] : []),
          who,
          `${significant(ms / 1000)} s`,
          ratio === undefined ? '' : `${significant(ratio)}x`,
          target ? `${target[0]}, ${target[1]}` : '',
          peakBytes === undefined ? '' : `${significant(peakBytes / 2 ** 20)} MiB`,
        ];
      });
      const head = [
        ...(works.length > 1 ? [{ title: 'what' }] : []),
        { title: 'who' },
        { title: 'time', align: 'right' },
        { title: 'Verbena is', align: 'right' },
        { title: 'must, aim' },
        { title: 'most memory', align: 'right' },
      ] as const;
      return [
        `${style.bold(setting.name)}  ${style.dim(`${input.words}, ${options.ranks} ranks`)}`,
        boxTable(head, rows, style),
        ...Object.entries(absent).map(([who, install]) => `missing ${who}: ${install}`),
        ...Object.entries(failed).map(([who, reason]) => `failed ${who}: ${reason}`),
      ].join('\n');
    };
    return {
      document: {
        workload: setting.name,
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
        name: 'sort',
        works: [{ name: 'sort', words: '', answer: records }],
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
        name: 'shuffle',
        works: [{ name: 'shuffle', words: '' }],
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
          name: workload,
          works: [{ name: workload, words: '', answer: workload === 'join' ? rows : groups }],
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
    peer: peerOption(ROW_PEERS),
    size: { type: 'size', summary: 'bytes of text; default 50 MB, with --long 200 MB' },
  },
  examples: [{ line: 'verbena bench wordcount --long --peer spark', note: '200 MB of text.' }],
  run: (context) => {
    const bytes = context.options.size ?? (context.options.long ? 200e6 : 50e6);
    return measure(
      {
        name: 'wordcount',
        works: [
          { name: 'wordcount', words: '' },
          { name: 'wordcount-js', words: 'functions in JavaScript' },
        ],
        peers: ROW_PEERS,
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

const rows = defineCommand({
  name: 'rows',
  summary: 'pipelines of JavaScript functions over rows, beside Spark',
  description:
    'Jobs over values that the program makes, nothing is read from files. Spark runs them in its own operators (DataFrames), without functions of a user.',
  options: { ranks: COMMON.ranks, rounds: { ...COMMON.rounds, default: 5 }, peer: peerOption(ROW_PEERS) },
  examples: [{ line: 'verbena bench rows --peer spark', note: 'map, reduceByKey, groupByKey, join, sortBy, distinct.' }],
  run: (context) =>
    measure(
      {
        name: 'rows',
        works: Object.entries(ROW_WORK).map(([name, { words, answer }]) => ({ name, words, answer })),
        peers: ROW_PEERS,
        prepare: async () => ({ ours: {}, theirs: {}, warm: {}, words: 'functions in JavaScript', bytes: 0 }),
      },
      context as unknown as Context,
      context.options,
    ),
});

export const datasetBenches: readonly AnyCommand[] = [
  sort,
  shuffle,
  rowsBench('groupby', 'sums by key, columnar, beside Spark and DuckDB', ['duckdb', 'spark'], 20e6, 1e6),
  rowsBench('join', 'joins a large and a small table, columnar, beside Spark and DuckDB', ['spark', 'duckdb'], 10e6, 1e6),
  wordcount,
  rows,
];
