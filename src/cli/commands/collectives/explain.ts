/** `verbena explain`: what would be chosen for a message or a collective, what each candidate would cost, and why the chosen one won. */

import { slotSeconds } from '../../../collectives/calibration.js';
import type { Machine, Selection, Shape } from '../../../collectives/index.js';
import { LOCAL_MACHINE } from '../../../collectives/local-machine.js';
import { hostCrossings, ringOrders, treeOrder } from '../../../collectives/order.js';
import { parseOverride } from '../../../collectives/override.js';
import { Planner } from '../../../collectives/plan.js';
import { ALGORITHMS, findAlgorithm } from '../../../collectives/registry.js';
import { explainVerdict, selectAlgorithm } from '../../../collectives/selection.js';
import { tunedMachine } from '../../../collectives/tuned-machine.js';
import type { Collective } from '../../../schedule/schedule.js';
import { listedTopology, regularTopology, type Topology } from '../../../schedule/topology.js';
import { type CommandGroup, defineCommand, UsageError } from '../../command.js';
import { formatSize, significant } from '../../size.js';
import { boxTable } from '../../table.js';
import { explainRanks } from '../launch/explain-ranks.js';
import { explainTag } from '../messaging/explain-tag.js';
import { explainStep } from '../train/explain-step.js';
import { measureCalls } from './measured-calls.js';

const NAMES = Object.keys(ALGORITHMS);
/** What a communicator takes without asking for costs. */
const SLOTS = 'entry slots';
const MEASURE_LIMIT_MS = 90_000;

/** A collective by its name; `allgather`, `alltoall` and the like are understood without their hyphens. @throws UsageError */
export function collectiveNamed(word: string | undefined): Collective {
  const found = NAMES.find((name) => name === word || name.replaceAll('-', '') === word);
  if (found === undefined) throw new UsageError(`name a collective: ${NAMES.join(', ')}; got '${word ?? ''}'`);
  return found as Collective;
}

interface Row {
  readonly name: string;
  readonly verdict: string;
  /** Predicted. */
  readonly us?: number;
  readonly segments?: number;
  readonly measuredUs?: number;
  /** Predicted over measured, minus 1. */
  readonly error?: number;
}

/** The order of ranks in rings and trees, where there are several hosts. */
interface RankOrder {
  readonly rings: readonly (readonly number[])[];
  /** Edges between hosts in each ring. */
  readonly crossings: readonly number[];
  readonly tree: readonly number[];
}

function topologyOf(ranks: number, hosts: number, nics: number, cyclic: boolean): Topology | undefined {
  if (hosts === 1) return undefined;
  if (ranks % hosts !== 0) throw new UsageError(`--ranks must be a multiple of --hosts: ${ranks}, ${hosts}`);
  if (!cyclic) return regularTopology({ hosts, ranksPerHost: ranks / hosts, nicsPerHost: nics });
  const dealt = Array.from({ length: ranks }, (_, rank) => ({
    host: rank % hosts,
    numa: 0,
    nic: Math.floor(rank / hosts) % nics,
  }));
  return listedTopology(dealt, nics);
}

function orderOf(topology: Topology | undefined, root: number): RankOrder | undefined {
  if (topology === undefined) return undefined;
  const rings = ringOrders(topology);
  return { rings, crossings: rings.map((ring) => hostCrossings(topology, ring)), tree: treeOrder(topology, root) };
}

function rowsOf(selection: Selection, inSlots: number | undefined, usesSlots: boolean): Row[] {
  const rows = selection.candidates.map(
    ({ name, verdict, seconds, segments }): Row => ({
      name,
      verdict: usesSlots && verdict.kind === 'chosen' ? 'the best that is no entry slot' : explainVerdict(verdict),
      ...(seconds === undefined ? {} : { us: seconds * 1e6 }),
      ...(segments === undefined ? {} : { segments }),
    }),
  );
  if (!usesSlots) return rows;
  const us = inSlots === undefined ? {} : { us: inSlots * 1e6 };
  return [{ name: SLOTS, verdict: 'chosen: the vector fits into the slots in which a call begins', ...us }, ...rows];
}

/** The candidates with the times they take here. Those that only exist elsewhere, or with several hosts, stay as they are. */
async function measure(collective: Collective, shape: Shape, rows: readonly Row[], signal: AbortSignal): Promise<Row[]> {
  const runnable = rows.filter(({ name, us }) => {
    if (name === SLOTS) return true;
    if (us === undefined) return false;
    const schedule = findAlgorithm(collective, name).schedule(shape);
    return schedule.nodes === schedule.size;
  });
  const calls = runnable.map(({ name }) => ({
    collective,
    algorithm: name === SLOTS ? undefined : name,
    bytes: shape.bytes,
  }));
  const limited = AbortSignal.any([signal, AbortSignal.timeout(MEASURE_LIMIT_MS)]);
  const times = await measureCalls(calls, { ranks: shape.size, memory: 'arena', durationMs: 150, signal: limited });
  return rows.map((row) => {
    const at = runnable.indexOf(row);
    if (at < 0) return row;
    const measuredUs = times[at].seconds * 1e6;
    return { ...row, measuredUs, ...(row.us === undefined ? {} : { error: row.us / measuredUs - 1 }) };
  });
}

function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const explainCollective = (collective: Collective) => {
  const word = collective.replaceAll('-', '');
  return defineCommand({
    name: word,
    summary: `shows which algorithm ${collective} takes, and why`,
    description:
      'Predicted times of every algorithm. Ranks of one host: with what `verbena tune` measured here, or with constants of a usual server; several\n' +
      'hosts: with constants of a usual network, and the order of ranks in rings and trees. --measure runs every candidate among processes of this\n' +
      'host, the vector written just before each call, and prints how far the prediction is off.',
    options: {
      ranks: { type: 'integer', default: 8, min: 1, max: 1024, summary: 'ranks' },
      size: { type: 'size', default: 1 << 20, min: 0, summary: 'bytes of the vector' },
      root: { type: 'integer', default: 0, min: 0, summary: 'root rank, where there is one' },
      hosts: { type: 'integer', default: 1, min: 1, max: 1024, summary: 'hosts the ranks stand on' },
      nics: { type: 'integer', default: 1, min: 1, max: 16, summary: 'NICs of a host' },
      placement: {
        type: 'choice',
        choices: ['block', 'cyclic'],
        default: 'block',
        summary: 'neighbours on one host, or dealt like cards',
      },
      algorithms: { type: 'string', value: 'STRING', summary: 'an override, as in allreduce:ring' },
      measure: { type: 'flag', summary: 'measure every candidate on this host' },
    },
    examples: [
      { line: `verbena explain ${word} --ranks 8 --size 1M`, note: 'Candidates, predicted times, and why each lost.' },
      { line: `verbena explain ${word} --ranks 2 --size 1M --measure`, note: 'And what they take here.' },
    ],
    async run({ options, style, signal }) {
      const { ranks, size, root, hosts, nics } = options;
      if (root >= ranks) throw new UsageError(`--root must be below --ranks, got ${root}`);
      const override = options.algorithms === undefined ? undefined : parseOverride(options.algorithms);
      const topology = topologyOf(ranks, hosts, nics, options.placement === 'cyclic');
      const oneHost = topology === undefined;
      if (options.measure && !oneHost) throw new UsageError('--measure runs on this host: leave --hosts out');
      if (options.measure && (size % (4 * ranks) !== 0 || size === 0) && collective !== 'barrier')
        throw new UsageError(`--measure needs a --size that is a multiple of ${4 * ranks}`);
      const base: Machine = oneHost ? tunedMachine(ranks) : { ...LOCAL_MACHINE, offers: [] };
      const sharded = collective === 'sharded-allreduce';
      if (options.measure && sharded) throw new UsageError('the reproducible form is not measured here');
      const machine: Machine = sharded ? { ...base, offers: [...(base.offers ?? []), 'shards'] } : base;
      const shape: Shape = { size: ranks, bytes: size, root, topology };
      const selection = selectAlgorithm(collective, shape, machine, override);
      const planner = new Planner({ size: ranks, isShared: true, machine, override, topology });
      const usesSlots = oneHost && planner.plan({ collective, buffers: [], count: size, type: 'u8', root }).method === 'slots';
      const predicted = rowsOf(selection, slotSeconds(machine, ranks, size), usesSlots);
      const candidates = options.measure ? await measure(collective, shape, predicted, signal) : predicted;
      const chosen = usesSlots ? SLOTS : selection.algorithm.name;
      const medianError = median(candidates.flatMap(({ error }) => (error === undefined ? [] : [Math.abs(error)])));
      const order = orderOf(topology, root);
      const constants = base === LOCAL_MACHINE || !oneHost ? 'a usual server' : machine.name;
      const document = {
        collective,
        size: ranks,
        bytes: size,
        root,
        hosts,
        constants,
        chosen,
        candidates,
        ...(order === undefined ? {} : { order }),
        ...(medianError === undefined ? {} : { medianError }),
      };
      const measured = options.measure;
      const text = () =>
        [
          `${style.bold(`${collective} of ${formatSize(size)} among ${ranks}`)}: ${chosen}${usesSlots ? '' : `, ${selection.algorithm.description}`}`,
          style.dim(`constants of ${constants}`),
          boxTable(
            [
              { title: 'algorithm' },
              { title: 'predicted', align: 'right' },
              ...(measured
                ? [
                    { title: 'measured', align: 'right' as const },
                    { title: 'error', align: 'right' as const },
                  ]
                : []),
              { title: 'segments', align: 'right' },
              { title: 'verdict' },
            ],
            candidates.map(({ name, verdict, us, segments, measuredUs, error }) => [
              name,
              us === undefined ? '' : `${significant(us)} us`,
              ...(measured
                ? [
                    measuredUs === undefined ? '' : `${significant(measuredUs)} us`,
                    error === undefined ? '' : `${error > 0 ? '+' : ''}${(100 * error).toFixed(0)} %`,
                  ]
                : []),
              String(segments ?? ''),
              verdict,
            ]),
            style,
          ),
          ...(medianError === undefined ? [] : [`median error ${(100 * medianError).toFixed(0)} %`]),
          ...(order === undefined
            ? []
            : [
                ...order.rings.map((ring, k) => `ring ${k}: ${ring.join(' ')}   (${order.crossings[k]} edges between hosts)`),
                `tree: ${order.tree.join(' ')}`,
              ]),
        ].join('\n');
      return { document, text };
    },
  });
};

export const explain: CommandGroup = {
  name: 'explain',
  summary: 'shows what would be chosen for ranks, a message or a collective, and why',
  commands: [explainRanks, explainTag, explainStep, ...NAMES.map((name) => explainCollective(name as Collective))],
  examples: [
    {
      line: 'verbena explain tag --size 64K',
      note: 'The protocols of a message, their costs, and where one takes over from another.',
    },
    { line: 'verbena explain allreduce --ranks 8 --size 1M', note: 'Candidates, predicted times, and why each lost.' },
    { line: 'verbena explain allreduce --ranks 2 --size 1M --measure', note: 'And what each takes on this machine.' },
  ],
};
