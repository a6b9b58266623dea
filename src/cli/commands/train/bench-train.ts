/** `verbena bench train`: how fast ranks train together, beside PyTorch, and beside processes that do not talk at all. */

import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOCAL_JOB, startJob } from '../../../launch/launcher/job.js';
import { type Context, defineCommand, type OptionSpecs, type Outcome } from '../../command.js';
import { formatCount, formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { median, summarize } from '../bench/statistics.js';
import { missingPyTorch, runPyTorch } from './pytorch-peer.js';
import { type Done, runTraining } from './training-job.js';
import type { ArchitectureName, TrainingMessage, TrainingTask } from './training-task.js';

const LIMIT_MS = 170_000;
const CHUNK = 20;
/** Batch of a rank, and steps of a round: a few seconds each. */
const SHAPES = { mlp: { batch: 128, steps: 300 }, cnn: { batch: 64, steps: 120 } } as const;
const SYNC_RANK = fileURLToPath(new URL('./sync-rank.js', import.meta.url));

type Report = Extract<TrainingMessage, { type: 'report' }>;

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
  readonly detail: () => string;
  round(signal: AbortSignal): Promise<number[]>;
}

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
  steps: { type: 'integer', min: 60, max: 100_000, summary: 'steps of a round; default 300 for mlp, 120 for cnn' },
  rounds: { type: 'integer', default: 5, min: 1, max: 50, summary: 'rounds of each, in turn' },
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
    'The systems take turns, a fresh start each round, one BLAS thread a rank; the ratio is of medians of the rounds. SGD with momentum, MNIST\n' +
    '(PyTorch: random images of that shape, in memory). A round is a fixed number of steps; its value is the median over stretches of 20, the first two left out.',
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
    if (context.options.metric === 'scaling') return scaling(context);
    if (context.options.metric === 'checkpoint') return checkpointStall(context);
    return compare(context);
  },
});

type BenchContext = Context<typeof OPTIONS>;

function taskOf({ options }: BenchContext, ranks: number): Omit<TrainingTask, 'rank' | 'meeting'> {
  const model = options.model as ArchitectureName;
  return {
    size: ranks,
    model,
    optimizer: 'sgd',
    batch: options.batch ?? SHAPES[model].batch,
    epochs: 1000,
    steps: options.steps ?? SHAPES[model].steps,
    reportEvery: CHUNK,
    learningRate: 0.01,
    seed: 1,
    mode: 'allreduce',
    compress: undefined,
    accumulate: 1,
    deadlineMs: undefined,
    backups: 0,
    balance: options.cut === 'speed',
    bucketBytes: undefined,
    shards: undefined,
    evaluate: false,
    killAt: undefined,
    onLoss: 'throw',
    checkpoints: undefined,
    output: undefined,
    trace: false,
  };
}

/** One training: its reports without the first two, and how it ended. */
async function measured(
  task: Omit<TrainingTask, 'rank' | 'meeting'>,
  signal: AbortSignal,
): Promise<{ reports: Report[]; done: Done }> {
  const reports: Report[] = [];
  const done = await runTraining({ task, signal, heard: (message) => message.type === 'report' && reports.push(message) });
  return { reports: reports.slice(2), done };
}

async function compare(context: BenchContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const { ranks, rounds, metric, size, buckets } = options;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
  const task = taskOf(context, ranks);
  const shares: { transfer: number[]; wait: number[]; overlap: number[] } = { transfer: [], wait: [], overlap: [] };
  let version = '';
  const ours: Subject = {
    who: 'verbena',
    detail: () => (metric === 'sync' ? `${buckets} buckets of an arena gradient` : 'all-reduce on shared memory'),
    async round(until) {
      if (metric === 'sync') return syncRound({ ranks, bytes: size, buckets, repeats: 40 }, until);
      const { reports } = await measured(task, until);
      shares.transfer.push(median(reports.map(({ transferShare }) => transferShare)));
      shares.wait.push(median(reports.map(({ waitShare }) => waitShare)));
      shares.overlap.push(median(reports.map(({ overlap }) => overlap)));
      return reports.map(({ samplesPerSecond }) => samplesPerSecond);
    },
  };
  const pytorch: Subject = {
    who: 'pytorch',
    detail: () => `PyTorch ${version}, gloo`,
    async round(until) {
      const words = metric === 'sync' ? ['sync', size, buckets, 40] : ['speed', task.model, task.batch, task.steps ?? 0, CHUNK];
      const run = await runPyTorch(ranks, words, until);
      version = run.version;
      return run.values.slice(2);
    },
  };
  const independent: Subject = {
    who: 'independent',
    detail: () => `${ranks} processes of one rank each, side by side`,
    async round(until) {
      const alone = { ...task, size: 1 };
      const all = await Promise.all(Array.from({ length: ranks }, () => measured(alone, until)));
      const lengths = Math.min(...all.map(({ reports }) => reports.length));
      return Array.from({ length: lengths }, (_, i) => all.reduce((sum, { reports }) => sum + reports[i].samplesPerSecond, 0));
    },
  };
  const missing: Record<string, string> = {};
  const subjects = [ours];
  if (options.peer.includes('pytorch')) {
    const install = missingPyTorch();
    if (install === undefined) subjects.push(pytorch);
    else missing['pytorch'] = install;
  }
  if (options.peer.includes('independent') && metric === 'speed') subjects.push(independent);
  const values = subjects.map(() => [] as number[][]);
  for (let round = 0; round < rounds; round++) {
    for (const [i, subject] of subjects.entries()) values[i].push(await subject.round(signal));
    progress(`round ${round + 1} of ${rounds}`);
  }
  const unit = metric === 'sync' ? 'ms' : 'samples/s';
  const results = subjects.map(({ who, detail }, i): Row => {
    const { min, p50, p99 } = summarize(values[i]);
    return { who, what: metric, unit, min, p50, p99, rounds, detail: detail() };
  });
  const ratios: Record<string, number> = {};
  for (const { who, p50 } of results.slice(1)) {
    const ratio = metric === 'sync' ? p50 / results[0].p50 : results[0].p50 / p50;
    ratios[who] = Number(ratio.toPrecision(4));
  }
  const communication =
    metric === 'sync'
      ? undefined
      : { transferShare: median(shares.transfer), waitShare: median(shares.wait), overlap: median(shares.overlap) };
  const document = { results, ratios, missing, metric, model: options.model, ranks, batch: task.batch, communication };
  const text = () => {
    const what =
      metric === 'sync' ? `${formatSize(size)} of gradients, ${buckets} buckets` : `${options.model}, batch ${task.batch} a rank`;
    const rows = results.map((row) => [
      row.who,
      `${significant(row.p50)} ${row.unit}`,
      ratios[row.who] === undefined ? '' : `${significant(ratios[row.who])}x`,
      style.dim(row.detail),
    ]);
    return [
      `${style.bold(`${what}, ${ranks} ranks`)}  ${style.dim(`${rounds} rounds, in turn`)}`,
      boxTable(
        [{ title: 'who' }, { title: 'median', align: 'right' }, { title: 'Verbena is', align: 'right' }, { title: 'what' }],
        rows,
        style,
      ),
      ...(communication === undefined
        ? []
        : [
            `communication: ${(100 * communication.transferShare).toFixed(2)} % of the step moving bytes, ` +
              `${(100 * communication.waitShare).toFixed(2)} % waiting; ${(100 * communication.overlap).toFixed(0)} % of the transfer behind backward`,
          ]),
      ...Object.entries(missing).map(([who, install]) => `missing ${who}: ${install}`),
    ].join('\n');
  };
  return { document, text };
}

/** Times of one gradient exchange, ms, without the first ones. */
async function syncRound(
  task: { ranks: number; bytes: number; buckets: number; repeats: number },
  signal: AbortSignal,
): Promise<number[]> {
  const meeting = mkdtempSync(join(tmpdir(), 'verbena-sync-'));
  const lines: string[] = [];
  const errors: string[] = [];
  const { ranks, ...rest } = task;
  const job = startJob({
    ...LOCAL_JOB,
    size: ranks,
    script: SYNC_RANK,
    args: [JSON.stringify({ ...rest, meeting })],
    cwd: process.cwd(),
    env: process.env,
    timeoutMs: 60_000,
    graceMs: 1000,
    takeLine: (_rank, stream, line) => (stream === 'stdout' ? lines : errors).push(line),
    tell: (line) => errors.push(line),
  });
  const stop = () => job.signal('SIGTERM', 143);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const { exitCode } = await job.result;
    if (exitCode !== 0) throw new Error(`the exchange ended with ${exitCode}: ${errors.slice(-8).join('\n')}`);
    const { times, wrong } = JSON.parse(lines[0]) as { times: number[]; wrong: number };
    if (wrong > 0) throw new Error(`${wrong} sums came out wrong`);
    return times.slice(3);
  } finally {
    signal.removeEventListener('abort', stop);
    rmSync(meeting, { recursive: true, force: true });
  }
}

async function scaling(context: BenchContext): Promise<Outcome> {
  const { options, style, progress } = context;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
  const most = Math.max(options.ranks, availableParallelism());
  const sizes = Array.from({ length: 7 }, (_, i) => 2 ** i).filter((ranks) => ranks <= most);
  const rates = sizes.map(() => [] as number[]);
  const shares = sizes.map(() => [] as number[]);
  for (let round = 0; round < Math.min(3, options.rounds); round++) {
    for (const [i, ranks] of sizes.entries()) {
      const { reports } = await measured(taskOf(context, ranks), signal);
      rates[i].push(median(reports.map(({ samplesPerSecond }) => samplesPerSecond)));
      shares[i].push(median(reports.map(({ transferShare }) => transferShare)));
    }
    progress(`round ${round + 1}`);
  }
  const rows = sizes.map((ranks, i) => {
    const samplesPerSecond = median(rates[i]);
    const speedUp = samplesPerSecond / median(rates[0]);
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
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
  const folder = mkdtempSync(join(tmpdir(), 'verbena-stall-'));
  const stalls: number[] = [];
  const steps: number[] = [];
  let skipped = 0;
  let begun = 0;
  try {
    for (let round = 0; round < options.rounds; round++) {
      const checkpoints = { directory: join(folder, `round-${round}`), everySteps: 10, resume: false };
      const { done } = await measured({ ...taskOf(context, options.ranks), checkpoints }, signal);
      const totals = done.checkpoints as NonNullable<Done['checkpoints']>;
      stalls.push(totals.stallMs / Math.max(1, totals.begun));
      steps.push(done.meanStep.totalMs);
      skipped += totals.skipped;
      begun += totals.begun;
      progress(`round ${round + 1} of ${options.rounds}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const [stallMs, stepMs] = [median(stalls), median(steps)];
  const share = stallMs / stepMs;
  const document = {
    metric: 'checkpoint',
    model: options.model,
    ranks: options.ranks,
    everySteps: 10,
    stallMs,
    stepMs,
    share,
    begun,
    skipped,
  };
  const text = () =>
    `${style.bold('a checkpoint every 10th step')} holds that step up by ${significant(stallMs)} ms of ${significant(stepMs)} ms: ` +
    `${(100 * share).toFixed(2)} %; ${begun} written, ${skipped} left out because the last two were not on the disk yet`;
  return { document, text };
}
