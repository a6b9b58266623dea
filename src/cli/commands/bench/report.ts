/** From measured values to what the user gets: the JSON document of DESIGN's contract, and a table. */

import { formatCount, formatSize, significant } from '../../size.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';
import type { AlternateResult, Measured } from './alternate.js';
import { type BenchCase, type Memory, type Metric, type Mode, type Op, ratioOf, unitOf } from './case.js';
import { spreadOf } from './statistics.js';
import type { Missing } from './subject.js';

export interface ResultEntry {
  readonly who: string;
  readonly op: Op;
  readonly size: number;
  readonly metric: Metric;
  readonly unit: string;
  readonly min: number;
  /** Median over the rounds of each round's median. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly rounds: number;
  readonly batches: number;
  readonly mode: Mode;
  readonly memory: Memory;
  readonly what: string;
  readonly verified: boolean;
  readonly command?: string;
  readonly raw?: string;
}

export interface BenchDocument {
  readonly results: readonly ResultEntry[];
  /** By peer: how many times better Verbena is; 1 is level, above is ahead. The median of the ratios of single rounds. */
  readonly ratios: Readonly<Record<string, number>>;
  /** By peer: the quartiles of those ratios. */
  readonly spreads: Readonly<Record<string, readonly [low: number, high: number]>>;
  /** By peer: the command that installs it. */
  readonly missing: Readonly<Record<string, string>>;
  /** By peer: why it has nothing to compare with this case. */
  readonly skipped: Readonly<Record<string, string>>;
  /** By peer: why it broke. */
  readonly failed: Readonly<Record<string, string>>;
  readonly cpus: readonly number[];
}

export interface Absent {
  readonly missing: Readonly<Record<string, Missing>>;
  readonly skipped: Readonly<Record<string, string>>;
}

function entry(bench: BenchCase, { who, summary, details, verified }: Measured): ResultEntry {
  const { op, size, metric, mode, memory } = bench;
  return { who, op, size, metric, unit: unitOf(metric), ...summary, mode, memory, ...details, verified };
}

/**
 * The document of one case; the first measured subject is ours. What a machine does for seconds, such as a hypervisor that moves its processors between cores and threads
 * of one core, happens to a round of ours and to the peer's right after it: the ratio of each such pair stays when the values themselves do not.
 */
export function benchDocument(bench: BenchCase, run: AlternateResult, absent: Absent, cpus: readonly number[]): BenchDocument {
  const results = run.measured.map((measured) => entry(bench, measured));
  const [ours, ...peers] = run.measured;
  const ratios: Record<string, number> = {};
  const spreads: Record<string, readonly [number, number]> = {};
  for (const { who, medians } of peers) {
    const paired = medians.map((theirs, round) => ratioOf(bench.metric, ours.medians[round], theirs));
    const { ratio, quartiles } = spreadOf(paired);
    ratios[who] = ratio;
    spreads[who] = quartiles;
  }
  const missing: Record<string, string> = {};
  for (const [who, { install }] of Object.entries(absent.missing)) missing[who] = install;
  return { results, ratios, spreads, missing, skipped: absent.skipped, failed: run.failed, cpus };
}

/** A value with its unit, three digits. */
export function formatValue(metric: Metric, value: number): string {
  return metric === 'rate' ? `${formatCount(value)}/s` : `${significant(value)} ${unitOf(metric)}`;
}

/** 'WRITE 8 B latency', 'READ 1 MiB bandwidth, private memory'. */
export function caseTitle(bench: BenchCase): string {
  const memory = bench.memory === 'private' ? ', private memory' : '';
  const mode = bench.mode === 'poll' ? '' : `, ${bench.mode} mode`;
  return `${bench.op.toUpperCase()} ${formatSize(bench.size)} ${bench.metric}${memory}${mode}`;
}

/** A ratio in colour: ahead, level, behind. */
export function formatRatio(ratio: number, style: Style): string {
  const text = `${significant(ratio)}x`;
  if (ratio >= 1.05) return style.green(text);
  return ratio >= 0.9 ? text : style.yellow(text);
}

/** Lines about peers that did not take part. */
function absentLines(document: BenchDocument, style: Style): string[] {
  return [
    ...Object.entries(document.missing).map(([who, install]) => `${style.yellow('missing')} ${who}: ${install}`),
    ...Object.entries(document.skipped).map(([who, reason]) => `${style.dim('skipped')} ${who}: ${reason}`),
    ...Object.entries(document.failed).map(([who, reason]) => `${style.red('failed')} ${who}: ${reason}`),
  ];
}

export function benchText(bench: BenchCase, document: BenchDocument, style: Style): string {
  const head = [
    { title: 'who' },
    { title: 'min', align: 'right' },
    { title: 'p50', align: 'right' },
    { title: 'p99', align: 'right' },
    { title: 'Verbena is', align: 'right' },
    { title: 'what was measured' },
  ] as const;
  const rows = document.results.map((result, i) => [
    i === 0 ? style.bold(result.who) : result.who,
    ...[result.min, result.p50, result.p99].map((value) => formatValue(result.metric, value)),
    i === 0 ? '' : formatRatio(document.ratios[result.who], style),
    style.dim(result.what),
  ]);
  const cpus = `CPUs ${document.cpus.join(' and ')}, ${document.results[0].rounds} rounds, in turn`;
  return [
    `${style.bold(caseTitle(bench))}  ${style.dim(cpus)}`,
    boxTable(head, rows, style),
    ...absentLines(document, style),
  ].join('\n');
}
