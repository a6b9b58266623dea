/** `verbena bench train`: how fast ranks train together, beside PyTorch, and beside processes that do not talk at all. */

import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { type Context, defineCommand, type OptionSpecs, type Outcome } from '../../command.js';
import { formatCount, formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { median, type Spread, spreadOf, summarize } from '../bench/statistics.js';
import { runMeasuring } from './measuring-job.js';
import { missingPyTorch, runPyTorch } from './pytorch-peer.js';
import type { SyncTask } from './sync-rank.js';
import type { ArchitectureName } from './training-task.js';
import type { Turn, TurnKind, TurnTask } from './turn-rank.js';

const LIMIT_MS = 170_000;
/** Batch of a rank, and steps of a turn: half a second. */
const SHAPES = { mlp: { batch: 128, steps: 100 }, cnn: { batch: 64, steps: 30 } } as const;
/** Turns of each kind in a round: between two starts of the processes. */
const PAIRS = 8;
/** PyTorch tells its speed over so many steps, the first two times left out. */
const STRETCH = 20;
const CHECKPOINT_EVERY = 10;
const SYNC_REPEATS = 40;
const SYNC_RANK = fileURLToPath(new URL('./sync-rank.js', import.meta.url));
const TURN_RANK = fileURLToPath(new URL('./turn-rank.js', import.meta.url));

const OPTIONS = {
  metric: {
    type: 'choice',
    choices: ['speed', 'sync', 'checkpoint', 'scaling'],
    default: 'speed',
    summary: 'samples/s; time of a gradient exchange; stall of checkpoints; samples/s by ranks',
  },
  model: {
    type: 'choice',
    choices: ['mlp', 'cnn'],
    default: 'mlp',
    summary: 'dense 784-512-256-10, or 5x5x16, pool, 5x5x32, pool, dense',
  },
  ranks: { type: 'integer', default: 2, min: 1, max: 64, summary: 'processes' },
  batch: { type: 'integer', min: 1, max: 4096, summary: 'samples of a rank in a step; default 128 for mlp, 64 for cnn' },
  steps: { type: 'integer', min: 20, max: 100_000, summary: 'steps of a turn; default 100 for mlp, 30 for cnn' },
  rounds: { type: 'integer', default: 5, min: 1, max: 50, summary: `starts of the processes, for ${PAIRS} turns of each kind` },
  cut: {
    type: 'choice',
    choices: ['speed', 'even'],
    default: 'speed',
    summary: 'how ranks share a batch: faster ones get more, or all the same',
  },
  size: { type: 'size', default: 25_000_000, min: 64, max: 1 << 30, summary: 'sync: bytes of the gradient' },
  buckets: { type: 'integer', default: 4, min: 1, max: 64, summary: 'sync: buckets' },
  peer: {
    type: 'list',
    choices: ['pytorch', 'independent'],
    default: [],
    value: 'NAME,...',
    summary: 'pytorch: DistributedDataParallel over gloo; independent: as many processes that do not talk',
  },
} as const satisfies OptionSpecs;

export const benchTrain = defineCommand({
  name: 'train',
  summary: 'training by several ranks: samples/s, gradient exchange, checkpoint stall, scaling',
  description:
    'One BLAS thread a rank, SGD with momentum, MNIST (PyTorch: random images of that shape, in memory). Training is measured in turns of half a second: all samples of the turn\n' +
    'over all of its time. Beside PyTorch, a fresh start each round, the ratio is of medians of the rounds. Independent training takes turns with training together in the same\n' +
    'processes, and so do steps with and without checkpoints: the speed of a machine drifts from second to second, so two turns that follow each other are compared, in\n' +
    'changing order, and the ratio is the median over all such pairs, with its quartiles.',
  options: OPTIONS,
  examples: [
    { line: 'verbena bench train --model mlp --ranks 2 --peer pytorch --json', note: 'Beside PyTorch with gloo.' },
    {
      line: 'verbena bench train --model cnn --ranks 2 --peer independent',
      note: 'Beside two processes that do not talk: what talking costs.',
    },
    { line: 'verbena bench train --metric sync --peer pytorch', note: '25 MB in 4 buckets, beside gloo.' },
  ],
  run(context) {
    const { metric } = context.options;
    if (metric === 'scaling') return scaling(context);
    if (metric === 'checkpoint') return checkpointStall(context);
    return metric === 'sync' ? compareSync(context) : compareSpeed(context);
  },
});

type BenchContext = Context<typeof OPTIONS>;

interface Row {
  readonly who: string;
  readonly what: string;
  readonly unit: string;
  readonly min: number;
  readonly p50: number;
  readonly p99: number;
  readonly rounds: number;
  readonly detail: string;
}

interface Subject {
  readonly who: string;
  detail(): string;
  round(signal: AbortSignal): Promise<number[]>;
}

/** A ratio over pairs of turns. */
interface Paired extends Spread {
  readonly pairs: number;
}

function limited({ signal }: BenchContext): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]);
}

function shapeOf({ options }: BenchContext): { model: ArchitectureName; batch: number; steps: number } {
  const model = options.model as ArchitectureName;
  return { model, batch: options.batch ?? SHAPES[model].batch, steps: options.steps ?? SHAPES[model].steps };
}

function takeTurns(
  context: BenchContext,
  ranks: number,
  kinds: readonly TurnKind[],
  pairs: number,
  signal: AbortSignal,
): Promise<Turn[]> {
  const balance = context.options.cut === 'speed';
  const task: Omit<TurnTask, 'meeting'> = { ...shapeOf(context), balance, kinds, pairs, everySteps: CHECKPOINT_EVERY };
  return runMeasuring(TURN_RANK, ranks, task, signal);
}

/** Samples of 'together' over those of the turn of another kind beside it. */
function pairUp(turns: readonly Turn[]): Paired {
  const [own, others] = [true, false].map((isOwn) => turns.filter(({ kind }) => (kind === 'together') === isOwn));
  const ratios = own.map((turn, pair) => turn.samplesPerSecond / others[pair].samplesPerSecond);
  return { ...spreadOf(ratios), pairs: ratios.length };
}

const rates = (turns: readonly Turn[], wanted: TurnKind) =>
  turns.filter(({ kind }) => kind === wanted).map(({ samplesPerSecond }) => samplesPerSecond);

async function compareSpeed(context: BenchContext): Promise<Outcome> {
  const { options, style } = context;
  const { ranks, peer } = options;
  const { model, batch, steps } = shapeOf(context);
  const kinds: TurnKind[] = peer.includes('independent') ? ['together', 'alone'] : ['together'];
  const turns: Turn[] = [];
  const aloneRates: number[][] = [];
  const ours: Subject = {
    who: 'verbena',
    detail: () => 'all-reduce on shared memory',
    async round(signal) {
      const all = await takeTurns(context, ranks, kinds, PAIRS, signal);
      turns.push(...all);
      aloneRates.push(rates(all, 'alone'));
      return rates(all, 'together');
    },
  };
  const { results, ratios, missing } = await compare(context, ours, ['speed', model, batch, 3 * steps, STRETCH]);
  let independent: Paired | undefined;
  if (kinds.length > 1) {
    independent = pairUp(turns);
    ratios['independent'] = independent.ratio;
    results.push(rowOf(context, 'independent', aloneRates, `${ranks} processes of one rank each, side by side`));
  }
  const together = turns.filter(({ kind }) => kind === 'together');
  const middle = (what: 'transferShare' | 'waitShare' | 'overlap') => median(together.map((turn) => turn[what]));
  const communication = {
    transferShare: middle('transferShare'),
    waitShare: middle('waitShare'),
    overlap: middle('overlap'),
  };
  const document = { results, ratios, independent, missing, metric: 'speed', model, ranks, batch, communication };
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  const text = () => {
    const lines = [
      table(context, `${model}, batch ${batch} a rank`, results, ratios, missing),
      `communication: ${percent(communication.transferShare)} of the step moving bytes, ${percent(communication.waitShare)} waiting; ` +
        `${(100 * communication.overlap).toFixed(0)} % of the transfer behind backward`,
    ];
    if (independent !== undefined) {
      const { quartiles, pairs } = independent;
      lines.push(
        style.dim(`independent: median of ${pairs} pairs of turns, quartiles ${quartiles.map(significant).join(' and ')}`),
      );
    }
    return lines.join('\n');
  };
  return { document, text };
}

async function compareSync(context: BenchContext): Promise<Outcome> {
  const { ranks, size, buckets } = context.options;
  const task: Omit<SyncTask, 'meeting'> = { bytes: size, buckets, repeats: SYNC_REPEATS };
  const ours: Subject = {
    who: 'verbena',
    detail: () => `${buckets} buckets of an arena gradient`,
    async round(signal) {
      const { times, wrong } = await runMeasuring<{ times: number[]; wrong: number }>(SYNC_RANK, ranks, task, signal);
      if (wrong > 0) throw new Error(`${wrong} sums came out wrong`);
      return times.slice(3);
    },
  };
  const { results, ratios, missing } = await compare(context, ours, ['sync', size, buckets, SYNC_REPEATS]);
  const document = { results, ratios, missing, metric: 'sync', ranks };
  const text = () => table(context, `${formatSize(size)} of gradients, ${buckets} buckets`, results, ratios, missing);
  return { document, text };
}

/** Ours, and PyTorch where it is asked for, in turn. */
async function compare(
  context: BenchContext,
  ours: Subject,
  words: readonly (string | number)[],
): Promise<{ results: Row[]; ratios: Record<string, number>; missing: Record<string, string> }> {
  const { options, progress } = context;
  const signal = limited(context);
  let version = '';
  const pytorch: Subject = {
    who: 'pytorch',
    detail: () => `PyTorch ${version}, gloo`,
    async round(until) {
      const run = await runPyTorch(options.ranks, words, until);
      version = run.version;
      return run.values.slice(2);
    },
  };
  const missing: Record<string, string> = {};
  const subjects = [ours];
  if (options.peer.includes('pytorch')) {
    const install = missingPyTorch();
    if (install === undefined) subjects.push(pytorch);
    else missing['pytorch'] = install;
  }
  const values = subjects.map(() => [] as number[][]);
  for (let round = 0; round < options.rounds; round++) {
    for (const [i, subject] of subjects.entries()) values[i].push(await subject.round(signal));
    progress(`round ${round + 1} of ${options.rounds}`);
  }
  const results = subjects.map(({ who, detail }, i) => rowOf(context, who, values[i], detail()));
  const ratios: Record<string, number> = {};
  for (const { who, p50 } of results.slice(1)) {
    const ratio = options.metric === 'sync' ? p50 / results[0].p50 : results[0].p50 / p50;
    ratios[who] = Number(ratio.toPrecision(4));
  }
  return { results, ratios, missing };
}

function rowOf({ options }: BenchContext, who: string, rounds: readonly number[][], detail: string): Row {
  const { min, p50, p99 } = summarize(rounds);
  const unit = options.metric === 'sync' ? 'ms' : 'samples/s';
  return { who, what: options.metric, unit, min, p50, p99, rounds: rounds.length, detail };
}

function table(
  { options, style }: BenchContext,
  what: string,
  results: readonly Row[],
  ratios: Readonly<Record<string, number>>,
  missing: Readonly<Record<string, string>>,
): string {
  const rows = results.map((row) => [
    row.who,
    `${significant(row.p50)} ${row.unit}`,
    ratios[row.who] === undefined ? '' : `${significant(ratios[row.who])}x`,
    style.dim(row.detail),
  ]);
  return [
    `${style.bold(`${what}, ${options.ranks} ranks`)}  ${style.dim(`${options.rounds} rounds, in turn`)}`,
    boxTable(
      [{ title: 'who' }, { title: 'median', align: 'right' }, { title: 'Verbena is', align: 'right' }, { title: 'what' }],
      rows,
      style,
    ),
    ...Object.entries(missing).map(([who, install]) => `missing ${who}: ${install}`),
  ].join('\n');
}

async function scaling(context: BenchContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const signal = limited(context);
  const most = Math.max(options.ranks, availableParallelism());
  const sizes = Array.from({ length: 7 }, (_, i) => 2 ** i).filter((ranks) => ranks <= most);
  const speeds = sizes.map(() => [] as number[]);
  const shares = sizes.map(() => [] as number[]);
  for (let round = 0; round < Math.min(3, options.rounds); round++) {
    for (const [i, ranks] of sizes.entries()) {
      const turns = await takeTurns(context, ranks, ['together'], 3, signal);
      speeds[i].push(median(rates(turns, 'together')));
      shares[i].push(median(turns.map(({ transferShare }) => transferShare)));
    }
    progress(`round ${round + 1}`);
  }
  const rows = sizes.map((ranks, i) => {
    const samplesPerSecond = median(speeds[i]);
    const speedUp = samplesPerSecond / median(speeds[0]);
    return { ranks, samplesPerSecond, speedUp, efficiency: speedUp / ranks, transferShare: median(shares[i]) };
  });
  const document = { metric: 'scaling', model: options.model, cores: availableParallelism(), results: rows };
  const columns = ['ranks', 'samples/s', 'speed-up', 'efficiency', 'transfer'];
  const text = () =>
    [
      `${style.bold(`${options.model}: the same batch for every rank`)}  ${style.dim(`${document.cores} cores`)}`,
      boxTable(
        columns.map((title) => ({ title, align: 'right' as const })),
        rows.map((row) => [
          String(row.ranks),
          formatCount(row.samplesPerSecond),
          significant(row.speedUp),
          `${(100 * row.efficiency).toFixed(0)} %`,
          `${(100 * row.transferShare).toFixed(2)} %`,
        ]),
        style,
      ),
    ].join('\n');
  return { document, text };
}

async function checkpointStall(context: BenchContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const { model, batch } = shapeOf(context);
  const { ranks } = options;
  const signal = limited(context);
  const turns: Turn[] = [];
  for (let round = 0; round < options.rounds; round++) {
    turns.push(...(await takeTurns(context, ranks, ['together', 'checkpoints'], PAIRS, signal)));
    progress(`round ${round + 1} of ${options.rounds}`);
  }
  const having = turns.filter(({ begun }) => begun > 0);
  const total = (what: 'begun' | 'skipped') => turns.reduce((sum, turn) => sum + turn[what], 0);
  const stallMs = median(having.map((turn) => turn.stallMs / turn.begun));
  const stepMs = 1e3 * median(rates(turns, 'together').map((rate) => (batch * ranks) / rate));
  const share = stallMs / stepMs;
  const { ratio, quartiles, pairs } = pairUp(turns);
  const [begun, skipped] = [total('begun'), total('skipped')];
  const slowdown = { ratio, quartiles, pairs };
  const document = {
    metric: 'checkpoint',
    model,
    ranks,
    everySteps: CHECKPOINT_EVERY,
    stallMs,
    stepMs,
    share,
    slowdown,
    begun,
    skipped,
  };
  const text = () =>
    `${style.bold(`a checkpoint every ${CHECKPOINT_EVERY}th step`)} holds that step up by ${significant(stallMs)} ms of ${significant(stepMs)} ms: ` +
    `${(100 * share).toFixed(2)} %; ${begun} written, ${skipped} left out because the last two were not on the disk yet\n` +
    `with the work in the background, steps without checkpoints are ${significant(ratio)}x as fast ` +
    style.dim(`(median of ${pairs} pairs of turns, quartiles ${quartiles.map(significant).join(' and ')})`);
  return { document, text };
}
