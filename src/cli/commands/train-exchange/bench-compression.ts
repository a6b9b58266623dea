/** `verbena bench compression`: bytes, time and steps to a target loss of each way to compress gradients, and whether it pays here and on a slower link. */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { COMPRESSIONS, nameOf, parseCompression } from '../../../train/compression/compression.js';
import { defineCommand, type Outcome, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import type { CompressionRun, CompressionTask } from './compression-rank.js';

const RANK = fileURLToPath(new URL('./compression-rank.js', import.meta.url));
const LIMIT_MS = 170_000;
/** Losses are smoothed over so many steps. */
const WINDOW = 10;

/** The first step from which on the smoothed loss is at most `target`, counted from 1; undefined when it never is. */
function stepsTo(losses: readonly number[], target: number): number | undefined {
  for (let step = WINDOW; step <= losses.length; step++) {
    const mean = losses.slice(step - WINDOW, step).reduce((sum, loss) => sum + loss, 0) / WINDOW;
    if (mean <= target) return step;
  }
  return undefined;
}

async function runRanks(task: Omit<CompressionTask, 'rank' | 'directory'>, signal: AbortSignal): Promise<CompressionRun[]> {
  const directory = mkdtempSync(join(tmpdir(), 'verbena-bench-compression-'));
  const runs: CompressionRun[] = [];
  const errors: string[] = [];
  const ranks = Array.from({ length: task.ranks }, (_, rank) => {
    const words = [RANK, JSON.stringify({ ...task, rank, directory } satisfies CompressionTask)];
    return spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
  });
  try {
    const codes = await Promise.all(
      ranks.map((child) => {
        createInterface({ input: child.stdout }).on('line', (line) => runs.push(JSON.parse(line) as CompressionRun));
        child.stderr.on('data', (text: Buffer) => errors.push(text.toString()));
        return new Promise((resolve, reject) => {
          child.on('error', reject);
          child.on('close', resolve);
        });
      }),
    );
    if (codes.some((code) => code !== 0)) throw new Error(`a rank failed: ${errors.join('').slice(-600)}`);
    return runs;
  } finally {
    for (const child of ranks) child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  }
}

export const benchCompression = defineCommand({
  name: 'compression',
  summary: 'gradient compression: bytes, time, steps to a target loss, and whether it pays',
  description:
    'Trains a 784-512-256-10 network on MNIST with each compression from the same start, ten steps each in turn. T is the time of a step without waiting for others, I the steps until the loss,\n' +
    'smoothed over 10 steps, is at the target. A compression pays when T x I is smaller than without it. The step on the slower link is the measured one with its\n' +
    "exchange taken from the measurement, plus the bytes of a rank over that link's speed, not hidden behind anything.",
  options: {
    kind: { type: 'list', default: [], value: 'KIND,...', summary: `which; default ${COMPRESSIONS.map(nameOf).join(', ')}` },
    ranks: { type: 'integer', default: 2, min: 1, max: 16, summary: 'processes' },
    steps: { type: 'integer', default: 250, min: 20, max: 10_000, summary: 'steps of each' },
    batch: { type: 'integer', default: 64, min: 1, max: 1024, summary: 'images of a rank in a step' },
    'learning-rate': { type: 'number', default: 0.1, min: 0.0001, max: 10, summary: 'of plain SGD' },
    target: { type: 'number', default: 0.35, min: 0.001, max: 2.3, summary: 'loss to reach' },
    'link-gbps': { type: 'number', default: 1, min: 0.001, max: 10_000, summary: 'the slower link, Gb/s' },
  },
  examples: [
    { line: 'verbena bench compression', note: 'All of them, here and on 1 Gb/s.' },
    {
      line: 'verbena bench compression --kind top-k:0.001,power-sgd:2 --link-gbps 0.1',
      note: 'Two of them, on a very slow link.',
    },
  ],
  async run({ options, signal, style, progress }): Promise<Outcome> {
    const kinds = options.kind.length > 0 ? options.kind.map(nameOrUsage) : COMPRESSIONS.map(nameOf);
    const { ranks, steps, batch, target } = options;
    const task = { ranks, steps, batch, learningRate: options['learning-rate'], kinds: ['none', ...kinds] };
    progress(`${task.kinds.length} trainings of ${steps} steps on ${ranks} ranks`);
    const runs = await runRanks(task, AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]));
    const bytesPerSecond = (options['link-gbps'] * 1e9) / 8;
    const rows = runs.map(({ kind, bytesPerStep, losses, stepMs, computeMs, exchangeMs }) => {
      const stepsToTarget = stepsTo(losses, target);
      const slowStepMs = stepMs + (1e3 * bytesPerStep) / bytesPerSecond;
      const hereMs = stepsToTarget === undefined ? undefined : stepMs * stepsToTarget;
      const slowMs = stepsToTarget === undefined ? undefined : slowStepMs * stepsToTarget;
      return {
        kind,
        bytesPerStep,
        stepMs,
        computeMs,
        exchangeMs,
        slowStepMs,
        stepsToTarget,
        hereMs,
        slowMs,
        lastLoss: losses.slice(-WINDOW).reduce((sum, loss) => sum + loss, 0) / WINDOW,
      };
    });
    const [plain] = rows;
    const pays = (own: number | undefined, other: number | undefined) =>
      own === undefined ? false : other === undefined || own < other;
    const results = rows.map((row) => ({
      ...row,
      share: row.bytesPerStep / plain.bytesPerStep,
      paysHere: row === plain ? undefined : pays(row.hereMs, plain.hereMs),
      paysOnLink: row === plain ? undefined : pays(row.slowMs, plain.slowMs),
    }));
    const document = { ranks, steps, batch, target, linkGbps: options['link-gbps'], results };
    const answer = (yes: boolean | undefined) => (yes === undefined ? '' : yes ? 'yes' : 'no');
    const text = () => {
      const right = { align: 'right' } as const;
      return [
        style.bold(`MLP on ${ranks} ranks, ${batch} images each, until the loss is ${target}`),
        boxTable(
          [
            { title: 'compression' },
            { title: 'bytes a step', ...right },
            { title: 'share', ...right },
            { title: 'step', ...right },
            { title: 'exchange', ...right },
            { title: 'steps', ...right },
            { title: 'pays here', ...right },
            { title: `on ${options['link-gbps']} Gb/s`, ...right },
            { title: 'last loss', ...right },
          ],
          results.map((row) => [
            row.kind,
            formatSize(Math.round(row.bytesPerStep)),
            `${(100 * row.share).toFixed(1)} %`,
            `${significant(row.stepMs)} ms`,
            `${significant(Math.max(0, row.exchangeMs))} ms`,
            row.stepsToTarget === undefined ? `> ${steps}` : String(row.stepsToTarget),
            answer(row.paysHere),
            answer(row.paysOnLink),
            row.lastLoss.toFixed(3),
          ]),
          style,
        ),
      ].join('\n');
    };
    return { document, text };
  },
});

function nameOrUsage(text: string): string {
  try {
    return nameOf(parseCompression(text));
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
