/**
 * The page `docs/validation.md`, made from the same numbers that the tests check: what is exact, what is within how much, what is a guess.
 */
import { findAlgorithm } from '../../src/collectives/registry.js';
import { formulaNs, machineOf } from '../../src/plan/cost/collective-cost.js';
import { medianError, predictHeldOut } from '../../src/plan/fit/calibration.js';
import { fitLine, fitPiecewise, leaveOneOut } from '../../src/plan/fit/piecewise.js';
import {
  h200Collectives,
  h200SwitchReduction,
  type MeasuredTable,
  publishedTables,
} from '../../src/plan/fit/published-tables.js';
import { formatBytes, formatSeconds } from '../../src/plan/report/svg.js';
import { simulateEvents } from '../../src/plan/simulate/events.js';
import { makeFabric } from '../../src/plan/simulate/fabric.js';
import { simulateRounds } from '../../src/plan/simulate/rounds.js';
import { parseTopology } from '../../src/plan/topology/registry.js';
import { crossSimulatorValues } from './cross-simulator.js';
import { knownValues } from './known-values.js';
import { ncclAllreduce } from './nccl-model.js';
import { recordedCalibration } from './recorded-calibration.js';

/** Markdown of the whole page. */
export function validationPage(): string {
  return [introduction, ...exactPart(), ...measuredPart(), ...modelPart(), guesses].join('\n');
}

const introduction = `# Validation of the planner

This page is generated from the numbers that the tests check; a test fails when it is out of date (\`VERBENA_UPDATE_DOCS=1\` with that test writes it again).
The method is that of the simulator literature: good cases prove little, so the bad ones are printed beside them.

## What is exact

Closed forms of every topology equal the walked graph (endpoints, switches, links by role and by cable, radix, diameter, regularity) on more than 80 small networks. Bisection widths
marked \`exact\` equal a search over all balanced halves of the endpoints with a maximum flow for each. The rules for virtual channels are checked on the channel-dependency graph of all routes.

In the tables below "expected" is a value of the literature, or one recomputed by hand from its formulas and constants. The prices follow the Hamming mesh paper's way of counting (64-port
switch 14,280, copper cable 272, optical cable 603; 16 planes for trees and dragonflies, 4 for the others).
`;

function exactPart(): string[] {
  const lines = [
    '### Other simulators, to the nanosecond',
    '',
    '16 nodes, 50 GiB/s, 500 ns a hop, messages of 1 MiB.',
    '',
    '| case | theirs, ns | ours, ns |',
    '|---|---:|---:|',
  ];
  for (const { what, theirsNs, oursNs } of crossSimulatorValues()) lines.push(`| ${what} | ${theirsNs} | ${oursNs} |`);
  let group = '';
  for (const value of knownValues()) {
    if (value.group !== group) {
      group = value.group;
      lines.push('', `### ${group}`, '', '| what | expected | ours |', '|---|---:|---:|');
    }
    lines.push(`| ${value.what} | ${value.expected} | ${value.ours} |`);
  }
  return [...lines, ''];
}

function measuredPart(): string[] {
  const lines = [
    '## What is within how much',
    '',
    'Published all-reduce measurements (stas00/ml-engineering). Every row is predicted by a piecewise line fitted on the other rows of its table. Above 512 MiB the promise is 10 %; below it there is none.',
    'The four-host table prints its smallest rows with one or two digits only, and jumps between them: no model follows those.',
    '',
  ];
  for (const table of publishedTables) lines.push(...tableLines(table));
  lines.push(...otherCollectives(), ...calibrationLines());
  const line = fitLine(publishedTables[0].rows);
  const errors = publishedTables[0].rows.map((row) => Math.abs(line.predict(row.bytes) / row.seconds - 1));
  lines.push(
    `One straight line through the A100 table (${formatSeconds(line.alphaSeconds)} and ${((line.bytesPerSecond * 1.75) / 1e9).toFixed(0)} GB/s of bus) is ${percent(mean(errors))} off on average and ${percent(Math.max(...errors))} at worst: that is why there are pieces.`,
    '',
  );
  return lines;
}

function calibrationLines(): string[] {
  const { machine, runs } = recordedCalibration;
  const predicted = runs.flatMap((run) => predictHeldOut(run).map((time) => ({ ...time, ranks: run.ranks })));
  const lines = [
    '### Collectives of this package on one host, predicted from a calibration',
    '',
    `${machine}. \`verbena plan calibrate\` measured ${runs.map(({ calibration, ranks }) => `${calibration.length} calls among ${ranks} ranks`).join(', ')} for the constants, and then the calls below, which were not among them. Run it on a machine of yours: the figures will be others.`,
    '',
    '| collective | ranks | size | measured | predicted | error |',
    '|---|---:|---:|---:|---:|---:|',
  ];
  for (const { collective, algorithm, ranks, bytes, seconds, predictedSeconds, error } of predicted) {
    lines.push(
      `| ${collective}:${algorithm} | ${ranks} | ${formatBytes(bytes)} | ${formatSeconds(seconds)} | ${formatSeconds(predictedSeconds)} | ${error > 0 ? '+' : ''}${percent(error)} |`,
    );
  }
  const medians = runs.map((run) => `${percent(medianError(predictHeldOut(run)))} among ${run.ranks}`).join(', ');
  const worst = Math.max(...predicted.map(({ error }) => Math.abs(error)));
  lines.push(
    '',
    `Median error ${percent(medianError(predicted))} (${medians}); worst ${percent(worst)}. With more ranks than processors, ranks that have nothing to do leave them to others; the`,
    'prediction counts how many those are on average, which is crude.',
    '',
  );
  return lines;
}

function tableLines(table: MeasuredTable): string[] {
  const rows = leaveOneOut(table.rows, fitPiecewise);
  const lines = [`### ${table.name}`, '', '| size | measured | predicted | error |', '|---:|---:|---:|---:|'];
  for (const row of rows)
    lines.push(
      `| ${formatBytes(row.bytes)} | ${formatSeconds(row.seconds)} | ${formatSeconds(row.predictedSeconds)} | ${signed(row.error)} |`,
    );
  const worst = (from: number, to: number): string =>
    percent(Math.max(...rows.filter((row) => row.bytes >= from && row.bytes < to).map((row) => Math.abs(row.error))));
  return [...lines, '', `Worst: ${worst(2 ** 29, Number.POSITIVE_INFINITY)} from 512 MiB on, ${worst(0, 2 ** 29)} below.`, ''];
}

/** Predictions for what was not fitted: other collectives, a shipped model, reduction in the switch. */
function otherCollectives(): string[] {
  const lines = [
    '### What was not fitted',
    '',
    '8 x H200 at 16 GiB: the bus bandwidth of the ring all-reduce, used for other collectives.',
    '',
    '| collective | measured, GB/s | predicted | error |',
    '|---|---:|---:|---:|',
  ];
  const { allreduceRing, others } = h200Collectives;
  for (const { collective, bus } of others)
    lines.push(`| ${collective} | ${bus} | ${allreduceRing} | ${signed(bus / allreduceRing - 1)} in time |`);
  lines.push(
    '',
    "8 x A100 with NCCL's own constants and 240 GB/s: good for large vectors, far too fast for small ones, where the launch dominates.",
    '',
    '| size | measured | predicted | error |',
    '|---:|---:|---:|---:|',
  );
  for (const i of [0, 5, 9, 12, 15, 19]) {
    const row = publishedTables[0].rows[i];
    const { seconds } = ncclAllreduce({ hosts: 1, ranksPerHost: 8, busBytesPerSecond: 240e9 }, row.bytes);
    lines.push(
      `| ${formatBytes(row.bytes)} | ${formatSeconds(row.seconds)} | ${formatSeconds(seconds)} | ${signed(seconds / row.seconds - 1)} |`,
    );
  }
  lines.push(
    '',
    'Reduction in the switch, 8 GiB on H200: the model halves the bytes of a ring, so it promises a gain of 2(p-1)/p. Hardware stays well below: a bad case.',
    '',
    '| GPUs | measured gain | model |',
    '|---:|---:|---:|',
  );
  for (const { gpus, ring, picked } of h200SwitchReduction)
    lines.push(`| ${gpus} | ${(picked / ring).toFixed(2)} | ${((2 * (gpus - 1)) / gpus).toFixed(2)} |`);
  return [...lines, ''];
}

/** Formula, simulation by rounds and simulation by events, side by side: where the models disagree with each other. */
function modelPart(): string[] {
  const [bytes, segments] = [2 ** 24, 16];
  const names = ['ring', 'halving-doubling', 'recursive-doubling', 'double-binary-tree', 'binomial-tree', 'parameter-server'];
  const networks = ['tree:k=16,depth=1', 'torus:sizes=4x4', 'dragonfly:p=2,a=2,h=2,groups=4'].map((text) => {
    const { topology, parameters } = parseTopology(text);
    return topology.build(parameters);
  });
  const lines = [
    '## Where our own models disagree',
    '',
    "All-reduce of 16 MiB over 16 ranks, in microseconds: the algorithm's cost formula (no contention), the simulation by rounds (each step as long as its slowest message) and by events (steps overlap).",
    'On one switch the three should agree; elsewhere the difference to the formula is contention, and the difference between the two simulations is overlap of steps.',
    '',
    '| algorithm | formula | one switch: rounds | events | torus 4x4: rounds | events | dragonfly: rounds | events |',
    '|---|---:|---:|---:|---:|---:|---:|---:|',
  ];
  const us = (ns: number): string => (ns / 1e3).toFixed(0);
  for (const name of names) {
    const algorithm = findAlgorithm('allreduce', name);
    const shape = { size: 16, bytes, segments };
    const workload = { schedule: algorithm.schedule(shape), bytes };
    const formula = formulaNs(algorithm, shape, machineOf(makeFabric(networks[0], 16)), 1);
    const simulated = networks.flatMap((network) => [
      simulateRounds(makeFabric(network, 16), workload).totalNs,
      simulateEvents(makeFabric(network, 16), workload).totalNs,
    ]);
    lines.push(`| ${name} | ${[formula, ...simulated].map(us).join(' | ')} |`);
  }
  return [...lines, ''];
}

const guesses = `## What is a guess

- Bisection of dragonfly, dragonfly+ (leading term) and Slim Fly (a third of the endpoints): the figures say \`estimate\`.
- Computing at half of the peak, links and NICs at 80 %: defaults of a cluster, to be replaced by measurements of yours.
- How much of the gradient exchange hides behind the last backward pass: all but one layer's share of it, at most that pass.
- Stage boundaries do not overlap with computing in the plans; real runtimes hide some of it.
- CPU nanoseconds per packet in the packet budget, and per interrupt in the energy model.
- The latency budget is a sum of published ranges, not a measurement.
- Switches that reduce do so at wire speed, and as many trees as asked for.
- Routing is static: no adaptive routing, no congestion control, no packet loss. Fan-in shares the last link fairly; it does not collapse as TCP incast does.
- What collectives cost on a host comes from a calibration without other load; between hosts it does not come from measurements yet.
`;

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function signed(share: number): string {
  return `${share < 0 ? '-' : '+'}${percent(Math.abs(share))}`;
}
