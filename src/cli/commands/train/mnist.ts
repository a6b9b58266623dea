/** `verbena train mnist`: a network that reads handwritten digits, trained by several processes together. */

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { makeFolder } from '../../../native/folder.js';
import { loadMnist } from '../../../nn/data/mnist.js';
import { suggestInterval } from '../../../train/checkpoint/interval.js';
import type { RankTimeline, Span } from '../../../train/index.js';
import { chromeTrace } from '../../../train/trace.js';
import { type Context, defineCommand, type OptionSpecs, UsageError } from '../../command.js';
import { formatCount, formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { besideEachOther, drawDigit } from './digits.js';
import { chooseExchange } from './exchange-choice.js';
import { duration, LiveProgress } from './live-progress.js';
import { type Done, runTraining } from './training-job.js';
import {
  ARCHITECTURES,
  type ArchitectureName,
  MODES,
  type Mode,
  type TrainingMessage,
  type TrainingTask,
} from './training-task.js';

/** Steps of the short run on one rank that the speed is compared with. */
const ALONE_STEPS = 200;

type Epoch = Extract<TrainingMessage, { type: 'epoch' }>;
type Report = Extract<TrainingMessage, { type: 'report' }>;
type Members = Extract<TrainingMessage, { type: 'members' }>;
type Ready = Extract<TrainingMessage, { type: 'ready' }>;

const OPTIONS = {
  ranks: {
    type: 'integer',
    short: 'n',
    summary: 'processes that train together; default: as many as there are cores, at least 2',
    min: 1,
    max: 64,
    value: 'N',
  },
  model: {
    type: 'choice',
    choices: ARCHITECTURES,
    default: 'cnn',
    summary: 'two convolutions, or a dense network 784-512-256-10',
  },
  epochs: { type: 'integer', default: 4, min: 1, max: 1000, summary: 'passes over the 60,000 images' },
  batch: {
    type: 'integer',
    min: 1,
    max: 4096,
    summary: 'images of one rank in a step; default: 128 shared by all ranks, at least 4',
  },
  'learning-rate': {
    type: 'number',
    default: 0.002,
    min: 0,
    summary: "Adam's, at its highest; it falls along a cosine",
    value: 'R',
  },
  seed: { type: 'integer', default: 1, min: 0, summary: 'of weights and of the order of images' },
  mode: { type: 'choice', choices: MODES, default: 'allreduce', summary: 'how gradients become one update' },
  compress: { type: 'string', summary: 'how gradients are compressed; default: not at all', value: 'HOW' },
  accumulate: { type: 'integer', default: 1, min: 1, max: 64, summary: 'micro-batches of a step', value: 'K' },
  deadline: {
    type: 'number',
    min: 1,
    summary: 'samples that a rank has not computed so many ms after a step began are left out',
    value: 'MS',
  },
  backups: {
    type: 'integer',
    default: 0,
    min: 0,
    max: 1023,
    summary: 'a step goes on without so many late ranks; with --mode ps',
    value: 'K',
  },
  cut: {
    type: 'choice',
    choices: ['speed', 'even'],
    default: 'speed',
    summary: 'how ranks share a batch: faster ones get more, or all the same; even with --shards',
  },
  'bucket-size': { type: 'size', min: 4, summary: 'least bytes of a bucket of gradients; default: by cost' },
  shards: {
    type: 'integer',
    min: 1,
    max: 1024,
    summary: 'reproducible mode: the same bits for every number of ranks that divides this',
    value: 'V',
  },
  'kill-one-at': { type: 'integer', min: 0, summary: 'the last rank kills itself before this step, with SIGKILL', value: 'STEP' },
  'on-loss': {
    type: 'choice',
    choices: ['shrink', 'replace', 'restart'],
    default: 'replace',
    summary: 'go on with the rest, let a new one join, or start all again from the last checkpoint',
  },
  'checkpoint-every': {
    type: 'integer',
    min: 1,
    summary: 'steps between two checkpoints; default: none, or 100 with --on-loss restart',
    value: 'STEPS',
  },
  resume: { type: 'flag', summary: 'goes on from the last checkpoint in the output folder' },
  output: {
    type: 'string',
    short: 'o',
    default: 'verbena-mnist',
    summary: 'folder for report, weights, trace and checkpoints',
    value: 'DIR',
  },
  trace: { type: 'string', summary: 'where the trace goes; default: trace.json in the output folder', value: 'FILE' },
  bind: { type: 'choice', choices: ['core', 'none'], default: 'none', summary: 'CPUs that a rank may use' },
  'skip-scaling': { type: 'flag', summary: 'leaves out the short run on one rank that the speed is compared with' },
} as const satisfies OptionSpecs;

function percent(share: number, digits = 1): string {
  return `${(100 * share).toFixed(digits)} %`;
}

/** Collects what the ranks say, and shows it. */
class Show {
  readonly epochs: Epoch[] = [];
  readonly reports: Report[] = [];
  readonly members: Members[] = [];
  ready: Ready | undefined;
  readonly #context: Context<typeof OPTIONS>;
  readonly #live: LiveProgress;

  constructor(context: Context<typeof OPTIONS>) {
    this.#context = context;
    this.#live = new LiveProgress(context);
  }

  heard(message: TrainingMessage): void {
    const { style } = this.#context;
    switch (message.type) {
      case 'ready': {
        this.ready = message;
        const { parameters, buckets, exchange, blas, restored } = message;
        const sizes = buckets.map(formatSize).join(', ');
        this.#live.line(`  ${formatCount(parameters)} parameters, ${exchange}, buckets of ${sizes}; matrix product: ${blas}`);
        if (restored > 0) this.#live.line(`  resumed after step ${restored}`);
        break;
      }
      case 'report':
        this.reports.push(message);
        this.#live.report(message);
        break;
      case 'epoch': {
        this.epochs.push(message);
        const { epoch, accuracy, loss, seconds, count } = message;
        const right = style.bold(percent(accuracy, 2));
        this.#live.line(
          `  epoch ${epoch + 1}: ${right} of ${count.toLocaleString('en')} test images right, loss ${loss.toFixed(4)}, after ${duration(seconds)}`,
        );
        break;
      }
      case 'members': {
        this.members.push(message);
        const { what, ranks, step, tookMs } = message;
        const words = what === 'lost' ? 'lost a rank' : 'a rank joined';
        this.#live.line(style.yellow(`  step ${step}: ${words}; ${ranks} go on, after ${significant(tookMs)} ms`));
        break;
      }
      case 'bad-checkpoint':
        this.#live.line(style.yellow(`  checkpoint of step ${message.step} is bad (${message.reason}): the one before it`));
        break;
      default:
    }
  }

  end(): void {
    this.#live.end();
  }
}

/** Speed and shares of a run, its first report left out: it holds the warm-up. */
function meansOf(reports: readonly Report[]): {
  samplesPerSecond: number;
  transferShare: number;
  waitShare: number;
  overlap: number;
} {
  const counted = reports.length > 2 ? reports.slice(1) : reports;
  const median = (of: (report: Report) => number) => {
    const sorted = counted.map(of).sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? Number.NaN;
  };
  return {
    samplesPerSecond: median(({ samplesPerSecond }) => samplesPerSecond),
    transferShare: median(({ transferShare }) => transferShare),
    waitShare: median(({ waitShare }) => waitShare),
    overlap: median(({ overlap }) => overlap),
  };
}

/** Joins the timelines that the ranks left in the folder into one trace. */
function joinTraces(folder: string, file: string): void {
  const names = readdirSync(folder).filter((name) => /^spans-\d+\.json$/.test(name));
  const timelines: RankTimeline[] = names.map((name) => {
    const spans = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Span[];
    return { rank: Number(name.slice(6, -5)), spans };
  });
  writeFileSync(file, JSON.stringify(chromeTrace(timelines)));
  for (const name of names) rmSync(join(folder, name));
}

export const mnist = defineCommand({
  name: 'mnist',
  summary: 'trains a network that reads handwritten digits, on several processes together',
  description:
    'MNIST, 60,000 images for training and 10,000 for the test, from an npm package. Every rank computes the gradient of its share of a batch; the gradients are ' +
    'added up in shared memory, bucket by bucket, while backward still computes. The last line is the test accuracy.',
  options: OPTIONS,
  examples: [
    { line: 'verbena train mnist', note: 'As many ranks as there are cores; about a minute.' },
    {
      line: 'verbena train mnist --ranks 2 --kill-one-at 500',
      note: 'One rank is killed in the middle; a new one takes its place.',
    },
    { line: 'verbena train mnist --shards 4 --ranks 4', note: 'The same weights, bit for bit, as with --ranks 1, 2 and 4.' },
  ],
  async run(context) {
    const { options, style, signal, screen, progress, width } = context;
    const ranks = options.ranks ?? Math.max(2, availableParallelism());
    const batch = options.batch ?? Math.max(4, Math.round(128 / ranks));
    const { mode, shards } = options;
    if (shards !== undefined && shards % ranks !== 0)
      throw new UsageError(`--shards ${shards} is no multiple of the ${ranks} ranks`);
    const { compress, backups, deadline: deadlineMs } = options;
    // What does not go together is told before anything starts.
    await chooseExchange({ mode: mode as Mode, compress, backups, size: ranks, deadlineMs }, { kind: 'adam' });
    const { output } = options;
    makeFolder(output);
    if (options.resume && !existsSync(join(output, 'checkpoints')))
      progress(`verbena: there is no checkpoint in ${output}: the training starts at its beginning`);
    const every = options['checkpoint-every'] ?? (options['on-loss'] === 'restart' || options.resume ? 100 : undefined);
    const task: Omit<TrainingTask, 'rank'> = {
      size: ranks,
      model: options.model as ArchitectureName,
      optimizer: 'adam',
      batch,
      epochs: options.epochs,
      steps: undefined,
      reportEvery: 20,
      learningRate: options['learning-rate'],
      seed: options.seed,
      mode: mode as Mode,
      compress,
      backups,
      accumulate: options.accumulate,
      deadlineMs,
      balance: options.cut === 'speed' && shards === undefined,
      bucketBytes: options['bucket-size'],
      shards,
      evaluate: true,
      killAt: options['kill-one-at'],
      onLoss: options['on-loss'] === 'restart' ? 'throw' : 'shrink',
      checkpoints:
        every === undefined ? undefined : { directory: join(output, 'checkpoints'), everySteps: every, resume: options.resume },
      output,
      trace: true,
    };
    if (!options.resume) rmSync(join(output, 'checkpoints'), { recursive: true, force: true });
    const began = performance.now();
    screen(
      `${style.bold('Training')} on MNIST: ${options.model}, ${ranks} ${ranks === 1 ? 'rank' : 'ranks'}, ${batch} images each in a step\n`,
    );
    const alone = options['skip-scaling'] || ranks === 1 ? undefined : await measureAlone(task, signal);
    if (alone !== undefined) screen(`  one rank alone: ${formatCount(alone)} samples/s\n`);
    const show = new Show(context);
    const job = {
      task,
      signal,
      restarts: options['on-loss'] === 'restart' ? 3 : 0,
      replace: options['on-loss'] === 'replace',
      bind: options.bind as 'core' | 'none',
      heard: (message: TrainingMessage) => show.heard(message),
      tell: (line: string) => progress(`verbena: ${line.split('\n', 1)[0].replace(/; its last lines:$/, '')}`),
    };
    const done = await runTraining(job).finally(() => show.end());
    const seconds = (performance.now() - began) / 1e3;
    const traceFile = options.trace ?? join(output, 'trace.json');
    joinTraces(output, traceFile);
    const means = meansOf(show.reports);
    const last = show.epochs.at(-1) as Epoch;
    const scaling = alone === undefined ? undefined : means.samplesPerSecond / alone;
    const document = {
      accuracy: last.accuracy,
      seconds,
      ranks,
      model: options.model,
      mode,
      batch,
      blas: show.ready?.blas,
      ...means,
      aloneSamplesPerSecond: alone,
      scaling,
      meanStep: done.meanStep,
      plan: done.plan,
      steps: done.steps,
      buckets: show.ready?.buckets,
      checkpoints: done.checkpoints,
      straggler: show.reports.at(-1)?.straggler,
      shares: show.reports.at(-1)?.shares ?? [],
      epochs: show.epochs,
      members: show.members,
      trace: traceFile,
      report: join(output, 'report.json'),
      weights: join(output, 'weights.safetensors'),
    };
    writeFileSync(document.report, `${JSON.stringify({ ...document, reports: show.reports }, undefined, 1)}\n`);
    const text = () => finalText(document, done, { style, width });
    return { document, text };
  },
});

/** Samples a second of one rank with the same batch, over a short run. */
async function measureAlone(task: Omit<TrainingTask, 'rank'>, signal: AbortSignal): Promise<number> {
  const reports: Report[] = [];
  const own = {
    ...task,
    size: 1,
    mode: 'allreduce' as const,
    compress: undefined,
    shards: undefined,
    steps: ALONE_STEPS,
    evaluate: false,
  };
  const quiet = { ...own, killAt: undefined, checkpoints: undefined, output: undefined, trace: false };
  await runTraining({ task: quiet, signal, heard: (message) => message.type === 'report' && reports.push(message) });
  return meansOf(reports).samplesPerSecond;
}

/** What checkpoints cost, and how often they would pay where a rank is lost every 40 minutes. */
function checkpointText({ checkpoints }: Done): string {
  if (checkpoints === undefined || checkpoints.begun === 0) return '';
  const { begun, skipped, committed, stallMs, failure } = checkpoints;
  if (failure !== undefined) return `the last whole one is ${committed < 0 ? 'none' : `of step ${committed}`}: ${failure}`;
  const { dalySeconds } = suggestInterval({ checkpointSeconds: stallMs / begun / 1e3, workerMtbfSeconds: 2400 });
  const left = skipped > 0 ? `, ${skipped} left out` : '';
  return `${begun} written${left}, ${significant(stallMs / begun)} ms of a step each; with a loss every 40 minutes one in ${significant(dalySeconds)} s is best`;
}

type Document = {
  readonly accuracy: number;
  readonly seconds: number;
  readonly ranks: number;
  readonly samplesPerSecond: number;
  readonly transferShare: number;
  readonly waitShare: number;
  readonly overlap: number;
  readonly scaling: number | undefined;
  readonly aloneSamplesPerSecond: number | undefined;
  readonly trace: string;
  readonly report: string;
  readonly weights: string;
  readonly straggler: { readonly text: string } | undefined;
  readonly shares: readonly number[];
};

function finalText(document: Document, done: Done, { style, width }: Pick<Context, 'style' | 'width'>): string {
  const { ranks, scaling, aloneSamplesPerSecond: alone, samplesPerSecond, seconds } = document;
  const { meanStep: step } = done;
  const ms = (value: number) => `${significant(value)} ms`;
  const rows: string[][] = [
    [
      'speed',
      `${formatCount(samplesPerSecond)} samples/s${scaling === undefined ? '' : `, ${significant(scaling)} times one rank alone (${formatCount(alone ?? 0)})`}`,
    ],
    [
      'communication',
      `${percent(document.transferShare)} of the step moving bytes, ${percent(document.waitShare)} waiting for a slower rank`,
    ],
    [
      'overlap',
      document.overlap > 0
        ? `${percent(document.overlap)} of the transfer ran behind backward`
        : 'none: one bucket after backward, since no core is free to overlap on (--bucket-size forces several)',
    ],
    [
      'a step',
      `${ms(step.totalMs)}: read ${ms(step.readMs)}, forward ${ms(step.forwardMs)}, backward ${ms(step.backwardMs)}, transfer ${ms(step.transferMs)}, wait ${ms(step.waitMs)}, update ${ms(step.optimizerMs)}`,
    ],
    ['stragglers', document.straggler?.text ?? ''],
    ['shares at last', `${document.shares.join(', ')} of ${document.shares.reduce((sum, share) => sum + share, 0)} images`],
    ['checkpoints', checkpointText(done)],
    ['time', duration(seconds)],
    ['trace', `${relative('', document.trace)} (open it in ui.perfetto.dev)`],
    ['report', relative('', document.report)],
    ['weights', relative('', document.weights)],
  ];
  const lines = [
    boxTable(
      [{ title: 'MNIST' }, { title: `${ranks} ranks` }],
      rows.filter(([, value]) => value !== ''),
      style,
    ),
  ];
  if (done.wrong.length > 0) {
    const { test } = loadMnist();
    const shown = done.wrong.slice(0, Math.max(1, Math.floor(width / 23)));
    const drawings = shown.map(({ sample, answer, label }) => ({
      lines: drawDigit(test.images.subarray(784 * sample, 784 * (sample + 1))),
      caption: `read ${answer}, is ${label}`,
    }));
    lines.push('', `  ${style.bold('Some that it got wrong:')}`, '', besideEachOther(drawings, width));
  }
  lines.push(`test accuracy ${(100 * document.accuracy).toFixed(2)} %`);
  return lines.join('\n');
}
