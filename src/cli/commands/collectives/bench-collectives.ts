/** `verbena bench collectives`: the whole table of what collectives on shared memory promise, each row beside its peers. */

import { defineCommand, type Outcome } from '../../command.js';
import { significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { verdictOf } from '../bench/target-table.js';
import type { Target } from '../bench/targets.js';
import { type MeasuredCollective, measureCollective } from './bench-collective.js';
import type { RankTask } from './rank-process.js';

const KI = 1 << 10;
const MI = 1 << 20;

interface PromisedRow {
  readonly what: string;
  readonly task: Pick<RankTask, 'collective' | 'size' | 'bytes' | 'memory'>;
  readonly targets: readonly Target[];
}

const allreduce = (bytes: number, size = 2, memory: RankTask['memory'] = 'arena') => ({
  collective: 'allreduce' as const,
  size,
  bytes,
  memory,
});
const openmpi = (must: number, aim: number): Target => ({ peer: 'openmpi', must, aim });

const TABLE: readonly PromisedRow[] = [
  { what: 'all-reduce 8 B, 2 ranks', task: allreduce(8), targets: [openmpi(0.8, 1.2)] },
  { what: 'all-reduce 64 KiB, 2 ranks', task: allreduce(64 * KI), targets: [openmpi(4, 8)] },
  { what: 'all-reduce 1 MiB, 2 ranks', task: allreduce(MI), targets: [openmpi(4, 6)] },
  {
    what: 'all-reduce 64 MiB, 2 ranks',
    task: allreduce(64 * MI),
    targets: [openmpi(5, 8), { peer: 'gloo', must: 8, aim: 14 }, { peer: 'limit', must: 0.7, aim: 0.9 }],
  },
  { what: 'all-reduce 64 MiB, 2 ranks, private memory', task: allreduce(64 * MI, 2, 'private'), targets: [openmpi(1.5, 3)] },
  { what: 'all-reduce 8 B, 4 ranks', task: allreduce(8, 4), targets: [openmpi(1, 5)] },
  { what: 'all-reduce 1 MiB, 4 ranks', task: allreduce(MI, 4), targets: [openmpi(1, 5)] },
  ...(['allgather', 'broadcast', 'alltoall'] as const).map((collective) => ({
    what: `${collective} 1 MiB, 2 ranks`,
    task: { collective, size: 2, bytes: MI, memory: 'arena' as const },
    targets: [openmpi(1.5, 3)],
  })),
];

interface ResultRow {
  readonly what: string;
  readonly peer: string;
  readonly must: number;
  readonly aim: number;
  readonly ours?: number;
  readonly theirs?: number;
  readonly measured?: number;
  readonly verdict: 'aim' | 'must' | 'below' | 'not measured';
  /** Why it was not measured. */
  readonly reason?: string;
}

function judge(what: string, target: Target, { results, ratios, missing, skipped }: MeasuredCollective): ResultRow {
  const theirs = results.find(({ who }) => who === target.peer);
  if (theirs === undefined) {
    const install = missing[target.peer];
    const reason = install === undefined ? skipped[target.peer] : `not installed: ${install}`;
    return { what, ...target, verdict: 'not measured', reason };
  }
  const measured = ratios[target.peer];
  return { what, ...target, ours: results[0].p50, theirs: theirs.p50, measured, verdict: verdictOf(measured, target) };
}

export const benchCollectives = defineCommand({
  name: 'collectives',
  summary: 'the table of all promises about collectives, beside Open MPI, gloo and the bare limit',
  description:
    'Each row is one call of bench allreduce and its kin: the systems take turns, the ratio is of medians. Times in microseconds. On a busy machine only\n' +
    'ratios mean something, and those little.',
  options: {
    rounds: { type: 'integer', default: 3, min: 1, max: 50, summary: 'rounds of each system, in turn' },
    'round-ms': { type: 'integer', default: 200, min: 10, max: 5000, value: 'MS', summary: 'length of one round' },
    only: { type: 'string', value: 'TEXT', summary: 'rows whose name contains this' },
  },
  examples: [{ line: 'verbena bench collectives --json', note: 'About a minute and a half.' }],
  async run({ options, signal, style, progress }): Promise<Outcome> {
    const table = TABLE.filter(({ what }) => what.includes(options.only ?? ''));
    const rows: ResultRow[] = [];
    const results: MeasuredCollective['results'][number][] = [];
    let wrong = 0;
    for (const { what, task, targets } of table) {
      progress(what);
      const timed = { ...task, durationMs: options['round-ms'] };
      const peers = targets.map(({ peer }) => peer);
      const measured = await measureCollective(timed, peers, options.rounds, signal);
      results.push(...measured.results);
      wrong += measured.results.reduce((sum, row) => sum + (row.wrong ?? 0), 0);
      for (const target of targets) rows.push(judge(what, target, measured));
    }
    const number = (value: number | undefined) => (value === undefined ? '' : significant(value));
    const right = (title: string) => ({ title, align: 'right' as const });
    const text = () =>
      boxTable(
        [
          { title: 'what' },
          { title: 'against' },
          ...['Verbena us', 'theirs us', 'ratio', 'must', 'aim'].map(right),
          { title: '' },
        ],
        rows.map((row) => [
          row.what,
          row.peer,
          number(row.ours),
          number(row.theirs),
          number(row.measured),
          String(row.must),
          String(row.aim),
          row.reason ?? row.verdict,
        ]),
        style,
      );
    return { document: { rows, results, wrong }, text, exitCode: wrong === 0 ? 0 : 1 };
  },
});
