/** `verbena explain step`: where the time of a training step goes, and how the gradient was cut. */

import { readFileSync } from 'node:fs';
import type { BucketCandidate, MeanStep } from '../../../train/index.js';
import { defineCommand, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';
import { runTraining } from './training-job.js';
import type { TrainingMessage } from './training-task.js';

const BAR = 40;

/** What the parts of a step are. Hidden transfer is no part: it runs beside backward. */
const PARTS = [
  ['read', 'readMs', "gathering the batch's images"],
  ['forward', 'forwardMs', 'layers, first to last, and the loss'],
  ['backward', 'backwardMs', 'gradients, last layer to first; buckets leave as they become final'],
  ['transfer', 'transferMs', 'moving and adding gradients that backward did not hide'],
  ['wait', 'waitMs', 'for a slower rank'],
  ['update', 'optimizerMs', 'the optimizer'],
] as const;

interface Explained {
  readonly model: string;
  readonly ranks: number;
  readonly meanStep: MeanStep;
  readonly buckets: readonly number[];
  readonly plan: readonly BucketCandidate[];
  readonly straggler: string;
}

/** What to try, by what the step spends its time on. */
function advice({ meanStep: step, ranks, straggler }: Explained): string {
  const share = (ms: number) => ms / step.totalMs;
  if (ranks === 1) return 'One rank exchanges nothing: compare with --ranks 2.';
  if (share(step.waitMs) > 0.1)
    return `Waiting is the largest loss: ${straggler}. Fewer ranks than cores, --accumulate, or a deadline help.`;
  if (share(step.transferMs) > 0.1)
    return 'The exchange is the largest loss: a larger batch, --accumulate or --compress make it rarer or smaller.';
  return 'Computing takes nearly all of it: the exchange is not what to improve.';
}

function textOf(explained: Explained, style: Style): string {
  const { meanStep: step, buckets, plan } = explained;
  const rows = PARTS.map(([name, field, what]) => {
    const share = step[field] / step.totalMs;
    return [
      name,
      `${significant(step[field])} ms`,
      `${(100 * share).toFixed(1)} %`,
      style.cyan('█'.repeat(Math.round(BAR * share))),
      style.dim(what),
    ];
  });
  const moved = step.hiddenMs + step.transferMs;
  const chosen = buckets.map(formatSize).join(', ');
  const lines = [
    `${style.bold(`a step of ${explained.model}, ${explained.ranks} ranks`)}: ${significant(step.totalMs)} ms`,
    boxTable(
      [
        { title: 'part' },
        { title: 'time', align: 'right' },
        { title: 'share', align: 'right' },
        { title: '' },
        { title: 'what' },
      ],
      rows,
      style,
    ),
    `${significant(step.hiddenMs)} ms of the exchange's ${significant(moved)} ms ran behind backward (${moved > 0 ? ((100 * step.hiddenMs) / moved).toFixed(0) : 100} %).`,
  ];
  if (plan.length > 0) {
    const sizes = plan.map(({ bucketBytes, buckets: count, exposedMs }) => [
      Number.isFinite(bucketBytes) && bucketBytes !== null ? formatSize(bucketBytes) : 'everything',
      String(count),
      `${significant(exposedMs)} ms`,
    ]);
    lines.push(
      '',
      `${style.bold('buckets')} of ${chosen}: the size that leaves the least exposed, by prediction`,
      boxTable(
        [
          { title: 'at least', align: 'right' },
          { title: 'buckets', align: 'right' },
          { title: 'exposed', align: 'right' },
        ],
        sizes,
        style,
      ),
    );
  }
  lines.push(advice(explained));
  return lines.join('\n');
}

export const explainStep = defineCommand({
  name: 'step',
  summary: 'shows where the time of a training step goes',
  description: 'Trains for a moment on MNIST and measures, or reads the report that `verbena train mnist` left.',
  options: {
    model: { type: 'choice', choices: ['cnn', 'mlp'], default: 'cnn', summary: 'what is trained' },
    ranks: { type: 'integer', default: 2, min: 1, max: 64, summary: 'processes' },
    batch: { type: 'integer', min: 1, max: 4096, summary: 'samples of a rank; default 64 for cnn, 128 for mlp' },
    steps: { type: 'integer', default: 100, min: 20, max: 10_000, summary: 'steps to measure' },
    'bucket-size': { type: 'size', min: 4, summary: 'least bytes of a bucket; default: by cost' },
    report: { type: 'string', summary: "a run's report.json to read instead", value: 'FILE' },
  },
  examples: [
    {
      line: 'verbena explain step --model mlp --ranks 2',
      note: 'Parts of a step, what was overlapped, and the bucket sizes that were weighed.',
    },
    { line: 'verbena explain step --report verbena-mnist/report.json', note: 'The same of a run that is over.' },
  ],
  async run({ options, signal, style }) {
    const explained = options.report === undefined ? await measure(options, signal) : readReport(options.report);
    return { document: { ...explained, advice: advice(explained) }, text: () => textOf(explained, style) };
  },
});

function readReport(file: string): Explained {
  let report: Record<string, unknown>;
  try {
    report = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  } catch (error) {
    throw new UsageError(`${file} is no report of verbena train: ${(error as Error).message}`);
  }
  const { model, ranks, meanStep, buckets, plan, straggler } = report as unknown as Omit<Explained, 'straggler'> & {
    straggler?: { text: string };
  };
  if (meanStep === undefined) throw new UsageError(`${file} is no report of verbena train: it has no meanStep`);
  return { model, ranks, meanStep, buckets: buckets ?? [], plan: plan ?? [], straggler: straggler?.text ?? '' };
}

async function measure(
  options: { model: string; ranks: number; batch: number | undefined; steps: number; 'bucket-size': number | undefined },
  signal: AbortSignal,
): Promise<Explained> {
  const model = options.model as 'cnn' | 'mlp';
  let buckets: readonly number[] = [];
  let straggler = '';
  const heard = (message: TrainingMessage) => {
    if (message.type === 'ready') buckets = message.buckets;
    if (message.type === 'report') straggler = message.straggler.text;
  };
  const task = {
    size: options.ranks,
    model,
    optimizer: 'sgd' as const,
    batch: options.batch ?? (model === 'cnn' ? 64 : 128),
    epochs: 1000,
    steps: options.steps,
    reportEvery: 20,
    learningRate: 0.01,
    seed: 1,
    mode: 'allreduce' as const,
    compress: undefined,
    accumulate: 1,
    deadlineMs: undefined,
    backups: 0,
    balance: false,
    bucketBytes: options['bucket-size'],
    shards: undefined,
    evaluate: false,
    killAt: undefined,
    onLoss: 'throw' as const,
    checkpoints: undefined,
    output: undefined,
    trace: false,
  };
  const { meanStep, plan } = await runTraining({ task, signal, heard });
  return { model, ranks: options.ranks, meanStep, buckets, plan, straggler };
}
