/** `verbena bench allreduce | allgather | broadcast | alltoall`: collectives among processes, in nccl-tests' columns, beside other systems. */

import { type Command, defineCommand, type Outcome, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { summarize } from '../bench/statistics.js';
import type { RankTask } from './rank-process.js';
import { gloo, limit, mpich, openmpi, type Subject, verbena } from './subjects.js';

const LIMIT_MS = 95_000;
const PEERS: readonly Subject[] = [openmpi, mpich, gloo, limit];

type Collective = RankTask['collective'];

/** algbw x this is the bandwidth a perfect network would need (nccl-tests). */
function busFactor(collective: Collective, ranks: number): number {
  if (collective === 'allreduce') return (2 * (ranks - 1)) / ranks;
  return collective === 'broadcast' ? 1 : (ranks - 1) / ranks;
}

export interface Row {
  readonly who: string;
  readonly op: Collective;
  readonly size: number;
  readonly count: number;
  readonly type: 'f32';
  readonly unit: 'us';
  readonly min: number;
  readonly p50: number;
  readonly p99: number;
  /** GB/s, 10^9. */
  readonly algbw: number;
  readonly busbw: number;
  /** Wrong elements; null: this system is not checked. */
  readonly wrong: number | null;
  readonly rounds: number;
  readonly what: string;
}

export interface MeasuredCollective {
  /** Verbena first. */
  readonly results: readonly Row[];
  /** The peer's time over ours. */
  readonly ratios: Readonly<Record<string, number>>;
  /** Peers that are not installed, and the command that installs them. */
  readonly missing: Readonly<Record<string, string>>;
  /** Peers that cannot do it, and why. */
  readonly skipped: Readonly<Record<string, string>>;
}

/** Verbena and the peers in turn, `rounds` times each. */
export async function measureCollective(
  task: Omit<RankTask, 'rank' | 'directory'>,
  peers: readonly string[],
  rounds: number,
  signal: AbortSignal,
  onRound: (round: number) => void = () => {},
): Promise<MeasuredCollective> {
  const { collective, bytes: size, size: ranks } = task;
  const missing: Record<string, string> = {};
  const skipped: Record<string, string> = {};
  const subjects: Subject[] = [verbena];
  for (const peer of PEERS.filter(({ who }) => peers.includes(who))) {
    const unfit = peer.unfit(collective);
    const install = unfit === undefined ? peer.missing() : undefined;
    if (unfit !== undefined) skipped[peer.who] = unfit;
    else if (install !== undefined) missing[peer.who] = install;
    else subjects.push(peer);
  }
  const measured = subjects.map((subject) => ({
    subject,
    times: [] as (readonly number[])[],
    wrong: null as number | null,
    what: '',
  }));
  for (let round = 0; round < rounds; round++) {
    for (const one of measured) {
      const result = await one.subject.round(task, signal);
      one.times.push(result.times);
      one.what = result.what;
      if (result.wrong !== undefined) one.wrong = (one.wrong ?? 0) + result.wrong;
    }
    onRound(round + 1);
  }
  const results = measured.map(({ subject, times, wrong, what }): Row => {
    const { min, p50, p99 } = summarize(times);
    const algbw = size / p50 / 1e3;
    const busbw = algbw * busFactor(collective, ranks);
    const shown = { size, count: size / 4, type: 'f32' as const, unit: 'us' as const };
    return { who: subject.who, op: collective, ...shown, min, p50, p99, algbw, busbw, wrong, rounds, what };
  });
  const ratios: Record<string, number> = {};
  for (const row of results.slice(1)) ratios[row.who] = Number((row.p50 / results[0].p50).toPrecision(4));
  return { results, ratios, missing, skipped };
}

function benchCollective(collective: Collective, summary: string): Command {
  return defineCommand({
    name: collective,
    summary,
    description:
      'Processes of this host, f32, in place, the synchronous form. The systems take turns, a fresh start each round; the ratio is of medians of\n' +
      "the rounds' medians, the peer's time over ours. --size is the whole vector, as nccl-tests counts. openmpi, mpich: MPI's own call. gloo: through\n" +
      'PyTorch. limit: a bare C program that averages its part of one shared mapping in place (all-reduce only). Results are checked before the timing;\n' +
      '#wrong counts elements.',
    options: {
      ranks: { type: 'integer', default: 2, min: 1, max: 64, summary: 'processes' },
      size: { type: 'size', default: 1 << 20, min: 4, max: 1 << 30, summary: 'bytes of the vector' },
      memory: {
        type: 'choice',
        choices: ['arena', 'private'],
        default: 'arena',
        summary: 'device.alloc, or an ordinary ArrayBuffer',
      },
      peer: {
        type: 'list',
        choices: PEERS.map(({ who }) => who),
        default: [],
        value: 'NAME,...',
        summary: 'systems to measure beside',
      },
      rounds: { type: 'integer', default: 5, min: 1, max: 50, summary: 'rounds of each system, in turn' },
      'round-ms': { type: 'integer', default: 300, min: 10, max: 5000, value: 'MS', summary: 'length of one round' },
      algorithms: { type: 'string', value: 'STRING', summary: 'which may run, as in allreduce:ring; default: by cost' },
    },
    examples: [
      {
        line: `verbena bench ${collective} --ranks 2 --size 64M --peer openmpi --json`,
        note: 'Beside Open MPI; one JSON document.',
      },
    ],
    async run({ options, signal: interrupted, style, progress }): Promise<Outcome> {
      const { ranks, rounds, memory, algorithms } = options;
      const unit = 4 * (collective === 'alltoall' || collective === 'allgather' ? ranks : 1);
      if (options.size % unit !== 0) throw new UsageError(`--size must be a multiple of ${unit} bytes, got ${options.size}`);
      const signal = AbortSignal.any([interrupted, AbortSignal.timeout(LIMIT_MS)]);
      const task = {
        size: ranks,
        collective,
        bytes: options.size,
        memory: memory as RankTask['memory'],
        durationMs: options['round-ms'],
        ...(algorithms === undefined ? {} : { algorithms }),
      };
      const { results, ratios, missing, skipped } = await measureCollective(task, options.peer, rounds, signal, (round) =>
        progress(`round ${round} of ${rounds}`),
      );
      const document = { results, ratios, missing, skipped, ranks, memory };
      const head = ['who', 'size', 'count', 'type', 'time', 'p99', 'algbw', 'busbw', '#wrong', 'Verbena is', 'what'];
      const text = () =>
        [
          `${style.bold(`${collective} among ${ranks}`)}  ${style.dim(`${formatSize(options.size)}, ${memory} memory, ${rounds} rounds, in turn; GB is 10^9`)}`,
          boxTable(
            head.map((title, i) => ({ title, align: i === 0 || i === head.length - 1 ? ('left' as const) : ('right' as const) })),
            results.map((row) => [
              row.who,
              String(row.size),
              String(row.count),
              row.type,
              `${significant(row.p50)} us`,
              `${significant(row.p99)} us`,
              `${significant(row.algbw)} GB/s`,
              `${significant(row.busbw)} GB/s`,
              row.wrong === null ? '-' : String(row.wrong),
              ratios[row.who] === undefined ? '' : `${significant(ratios[row.who])}x`,
              style.dim(row.what),
            ]),
            style,
          ),
          ...Object.entries(missing).map(([who, install]) => `missing ${who}: ${install}`),
          ...Object.entries(skipped).map(([who, reason]) => `skipped ${who}: ${reason}`),
        ].join('\n');
      return { document, text, exitCode: results[0].wrong === 0 ? 0 : 1 };
    },
  }) as unknown as Command;
}

export const collectiveBenches: readonly Command[] = [
  benchCollective('allreduce', 'all ranks end with the average of all vectors'),
  benchCollective('allgather', 'all ranks end with the parts of all'),
  benchCollective('broadcast', 'all ranks end with the vector of rank 0'),
  benchCollective('alltoall', 'every rank sends a part to every other'),
];
