/** Runs the whole table of targets and shows must, aim and measured side by side. */

import type { Style } from '../../style.js';
import { boxTable, type Column } from '../../table.js';
import { type MeasureOptions, measure } from './measure.js';
import { type BenchDocument, formatRatio, formatValue, type ResultEntry } from './report.js';
import { type Target, type TargetRow, targetsOf } from './targets.js';

export interface TargetResult {
  readonly what: string;
  readonly peer: string;
  readonly must: number;
  readonly aim: number;
  /** The ratio; absent when the peer did not take part. */
  readonly measured?: number;
  readonly verdict: 'aim' | 'must' | 'below' | 'not measured';
  readonly ours?: number;
  readonly theirs?: number;
  readonly unit?: string;
  /** Why it was not measured. */
  readonly reason?: string;
}

export interface TargetDocument {
  readonly rows: readonly TargetResult[];
  readonly results: readonly ResultEntry[];
  readonly missing: Readonly<Record<string, string>>;
  readonly cpus: readonly number[];
}

export function verdictOf(ratio: number, target: Target): 'aim' | 'must' | 'below' {
  if (ratio >= target.aim) return 'aim';
  return ratio >= target.must ? 'must' : 'below';
}

function judge(what: string, target: Target, document: BenchDocument | undefined): TargetResult {
  const { peer } = target;
  const theirs = document?.results.find((result) => result.who === peer);
  if (!document || !theirs) {
    const install = document?.missing[peer];
    const reason = install ? `not installed: ${install}` : (document?.skipped[peer] ?? document?.failed[peer] ?? OUT_OF_TIME);
    return { what, ...target, verdict: 'not measured', reason };
  }
  const [ours] = document.results;
  const measured = document.ratios[peer];
  return { what, ...target, measured, verdict: verdictOf(measured, target), ours: ours.p50, theirs: theirs.p50, unit: ours.unit };
}

/** A row does not start with less time than this, and what runs is ended so long after the time is over. */
const LEAST_MS = 2000;
const GRACE_MS = 4000;
const OUT_OF_TIME = 'out of time: the machine is busy';

/** Measures every row; `onRow` gets what there is after each. The time is shared out among the rows; those it does not suffice for say so. */
export async function measureTargets(
  options: MeasureOptions,
  onRow: (document: TargetDocument) => void = () => {},
  table: readonly TargetRow[] = targetsOf(options.provider),
): Promise<TargetDocument> {
  const rows: TargetResult[] = [];
  const results: ResultEntry[] = [];
  const missing: Record<string, string> = {};
  const deadline = performance.now() + options.budgetMs;
  const over = AbortSignal.timeout(Math.ceil(options.budgetMs) + GRACE_MS);
  const signal = AbortSignal.any([options.signal, over]);
  for (const [index, { what, bench, targets }] of table.entries()) {
    const left = deadline - performance.now();
    options.progress(what);
    const peers = targets.map((target) => target.peer);
    const budgetMs = left / (table.length - index);
    let document: BenchDocument | undefined;
    try {
      if (left >= LEAST_MS) document = await measure(bench, { ...options, peers, budgetMs, signal, progress: () => {} });
    } catch (error) {
      if (!over.aborted || options.signal.aborted) throw error;
    }
    rows.push(...targets.map((target) => judge(what, target, document)));
    results.push(...(document?.results ?? []));
    Object.assign(missing, document?.missing);
    onRow({ rows, results, missing, cpus: options.cpus });
  }
  return { rows, results, missing, cpus: options.cpus };
}

const VERDICT = { aim: '●', must: '◐', below: '○', 'not measured': ' ' } as const;

/** The table; with `judged` also what was promised and how it was met. */
export function targetText(document: TargetDocument, style: Style, judged: boolean): string {
  const head: Column[] = [
    { title: 'what' },
    { title: 'Verbena', align: 'right' },
    { title: 'against' },
    { title: 'theirs', align: 'right' },
    { title: 'ratio', align: 'right' },
  ];
  if (judged) head.push({ title: 'must', align: 'right' }, { title: 'aim', align: 'right' }, { title: '' });
  const paint = { aim: style.green, must: style.yellow, below: style.red, 'not measured': style.dim };
  let last = '';
  const rows = document.rows.map((row) => {
    const metric = row.unit === 'us' ? 'latency' : row.unit === 'GB/s' ? 'bandwidth' : 'rate';
    const first = row.what !== last;
    last = row.what;
    const absent = row.reason?.startsWith('not installed') ? 'missing' : 'none';
    return [
      first ? row.what : '',
      first && row.ours !== undefined ? style.bold(formatValue(metric, row.ours)) : '',
      row.peer,
      row.theirs === undefined ? style.dim(absent) : formatValue(metric, row.theirs),
      row.measured === undefined ? '' : formatRatio(row.measured, style),
      ...(judged ? [style.dim(String(row.must)), style.dim(String(row.aim)), paint[row.verdict](VERDICT[row.verdict])] : []),
    ];
  });
  const notes = document.rows.filter((row) => row.reason !== undefined).map((row) => style.dim(`${row.peer}: ${row.reason}`));
  const legend = judged ? [`${style.green('●')} aim reached  ${style.yellow('◐')} must reached  ${style.red('○')} below`] : [];
  const meaning = style.dim('ratio: how many times better Verbena is; 1 is level, above is ahead');
  return [boxTable(head, rows, style), meaning, ...legend, ...new Set(notes)].join('\n');
}
