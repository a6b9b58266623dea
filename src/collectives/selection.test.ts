import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Collective } from '../schedule/schedule.js';
import { regularTopology } from '../schedule/topology.js';
import type { Shape } from './algorithm.js';
import type { Machine } from './machine.js';
import { parseOverride } from './override.js';
import { explainVerdict, selectAlgorithm } from './selection.js';

const US = 1e-6;
const perSecond = (gigabytes: number): number => 1 / (gigabytes * 1e9);

/** Invented: a host with shared memory. */
const HOST: Machine = {
  name: 'one host',
  host: { alphaSeconds: 0.4 * US, betaSecondsPerByte: perSecond(8) },
  network: { alphaSeconds: 2 * US, betaSecondsPerByte: perSecond(12.5) },
  memory: { alphaSeconds: 0.1 * US, betaSecondsPerByte: perSecond(20) },
  gammaSecondsPerByte: perSecond(20),
  offers: ['shared-memory'],
};

/** Invented: 100 Gb/s between hosts, no shared buffers. */
const CLUSTER: Machine = { ...HOST, name: 'cluster', offers: [] };

const KI = 1024;
const MI = 1024 * KI;
const SIZES: [string, number][] = [
  ['8B', 8],
  ['1K', KI],
  ['64K', 64 * KI],
  ['1M', MI],
  ['64M', 64 * MI],
];

function row(collective: Collective, machine: Machine, shape: Omit<Shape, 'bytes'>): string {
  return SIZES.map(([label, bytes]) => {
    const { algorithm, shape: chosen } = selectAlgorithm(collective, { ...shape, bytes }, machine);
    return `${label} ${algorithm.name}${algorithm.tunable === undefined ? '' : `/${chosen.segments}`}`;
  }).join(', ');
}

test('golden: what is chosen on one host', () => {
  const table = [2, 4, 6, 16].flatMap((size) =>
    (['allreduce', 'broadcast', 'all-gather', 'all-to-all'] as const).map(
      (collective) => `${collective} ${size}: ${row(collective, HOST, { size })}`,
    ),
  );
  assert.deepEqual(table, [
    'allreduce 2: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'broadcast 2: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-gather 2: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-to-all 2: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'allreduce 4: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'broadcast 4: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-gather 4: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-to-all 4: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'allreduce 6: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'broadcast 6: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-gather 6: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-to-all 6: 8B shared-direct, 1K shared-direct, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'allreduce 16: 8B recursive-doubling, 1K recursive-doubling, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'broadcast 16: 8B binomial, 1K binomial, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-gather 16: 8B recursive-doubling, 1K recursive-doubling, 64K shared-direct, 1M shared-direct, 64M shared-direct',
    'all-to-all 16: 8B bruck, 1K bruck, 64K shared-direct, 1M shared-direct, 64M shared-direct',
  ]);
});

test('golden: what is chosen on a cluster', () => {
  const shapes: [string, Omit<Shape, 'bytes'>][] = [
    ['8x1', { size: 8, topology: regularTopology({ hosts: 8 }) }],
    ['4x8', { size: 32, topology: regularTopology({ hosts: 4, ranksPerHost: 8, nicsPerHost: 1 }) }],
    ['4x8, 8 NICs', { size: 32, topology: regularTopology({ hosts: 4, ranksPerHost: 8, nicsPerHost: 8 }) }],
    ['100x1', { size: 100, topology: regularTopology({ hosts: 100 }) }],
  ];
  const table = shapes.flatMap(([label, shape]) =>
    (['allreduce', 'broadcast', 'all-gather', 'reduce-scatter', 'barrier'] as const).map(
      (collective) => `${collective} ${label}: ${row(collective, CLUSTER, shape)}`,
    ),
  );
  assert.deepEqual(table, [
    'allreduce 8x1: 8B recursive-doubling, 1K recursive-doubling, 64K halving-doubling, 1M halving-doubling, 64M ring-pipelined/8',
    'broadcast 8x1: 8B binomial, 1K binomial, 64K binomial, 1M chain/16, 64M chain/128',
    'all-gather 8x1: 8B recursive-doubling, 1K recursive-doubling, 64K recursive-doubling, 1M recursive-doubling, 64M recursive-doubling',
    'reduce-scatter 8x1: 8B recursive-halving, 1K recursive-halving, 64K recursive-halving, 1M recursive-halving, 64M recursive-halving',
    'barrier 8x1: 8B dissemination, 1K dissemination, 64K dissemination, 1M dissemination, 64M dissemination',
    'allreduce 4x8: 8B recursive-doubling, 1K recursive-doubling, 64K hierarchical/1, 1M hierarchical/4, 64M hierarchical/32',
    'broadcast 4x8: 8B hierarchical, 1K hierarchical, 64K hierarchical, 1M chain/32, 64M chain/256',
    'all-gather 4x8: 8B hierarchical, 1K hierarchical, 64K hierarchical, 1M ring, 64M ring',
    'reduce-scatter 4x8: 8B recursive-halving, 1K recursive-halving, 64K hierarchical, 1M ring, 64M ring',
    'barrier 4x8: 8B hierarchical, 1K hierarchical, 64K hierarchical, 1M hierarchical, 64M hierarchical',
    'allreduce 4x8, 8 NICs: 8B recursive-doubling, 1K recursive-doubling, 64K hierarchical/1, 1M hierarchical/4, 64M hierarchical/32',
    'broadcast 4x8, 8 NICs: 8B hierarchical, 1K hierarchical, 64K hierarchical, 1M scatter-all-gather, 64M chain/256',
    'all-gather 4x8, 8 NICs: 8B recursive-doubling, 1K recursive-doubling, 64K recursive-doubling, 1M recursive-doubling, 64M recursive-doubling',
    'reduce-scatter 4x8, 8 NICs: 8B recursive-halving, 1K recursive-halving, 64K recursive-halving, 1M recursive-halving, 64M hierarchical',
    'barrier 4x8, 8 NICs: 8B hierarchical, 1K hierarchical, 64K hierarchical, 1M hierarchical, 64M hierarchical',
    'allreduce 100x1: 8B recursive-doubling, 1K recursive-doubling, 64K halving-doubling, 1M binary-blocks, 64M ring-pipelined/4',
    'broadcast 100x1: 8B binomial, 1K binomial, 64K binomial, 1M scatter-all-gather, 64M chain/512',
    'all-gather 100x1: 8B bruck, 1K bruck, 64K bruck, 1M bruck, 64M bruck',
    'reduce-scatter 100x1: 8B recursive-halving, 1K recursive-halving, 64K recursive-halving, 1M recursive-halving, 64M pairwise',
    'barrier 100x1: 8B dissemination, 1K dissemination, 64K dissemination, 1M dissemination, 64M dissemination',
  ]);
});

test('every loser says why it lost', () => {
  const { candidates, algorithm, seconds } = selectAlgorithm('allreduce', { size: 6, bytes: 64 * KI }, CLUSTER);
  assert.equal(candidates.filter(({ verdict }) => verdict.kind === 'chosen').length, 1);
  for (const { name, verdict, seconds: predicted } of candidates) {
    if (verdict.kind === 'slower')
      assert.ok(verdict.ratio >= 1 && Math.abs((predicted ?? 0) - verdict.ratio * seconds) < 1e-12, name);
    if (verdict.kind === 'chosen') assert.equal(name, algorithm.name);
  }
  const why = Object.fromEntries(candidates.map(({ name, verdict }) => [name, explainVerdict(verdict)]));
  assert.equal(why['shared-direct'], 'needs shared-memory, which this machine does not offer');
  assert.equal(why['hierarchical'], 'needs a topology');
  assert.match(why['linear'], /^\d+\.\d\d times the chosen one$/);
});

test('a pipelined algorithm enters with its best number of segments', () => {
  const { shape, algorithm } = selectAlgorithm(
    'broadcast',
    { size: 10, bytes: 64 * MI, topology: regularTopology({ hosts: 10 }) },
    CLUSTER,
  );
  assert.equal(algorithm.name, 'chain');
  const best = Math.sqrt((8 * 64 * MI * CLUSTER.network.betaSecondsPerByte) / CLUSTER.network.alphaSeconds);
  assert.ok(
    (shape.segments ?? 0) > best / 2 && (shape.segments ?? 0) < best * 2,
    `${shape.segments} segments, the formula says ${best}`,
  );
});

test('an override restricts, excludes, and names what it does not know', () => {
  const shape = { size: 8, bytes: MI };
  const chosen = (text: string, collective: Collective = 'allreduce'): string =>
    selectAlgorithm(collective, shape, CLUSTER, parseOverride(text)).algorithm.name;
  assert.equal(chosen('allreduce:linear;broadcast:binomial'), 'linear');
  assert.equal(chosen('allreduce:linear;broadcast:binomial', 'broadcast'), 'binomial');
  assert.equal(chosen('ring', 'all-gather'), 'ring');
  assert.equal(chosen('ring;allreduce: linear , binomial-tree'), 'binomial-tree');
  const free = chosen('');
  assert.notEqual(chosen(`allreduce:^${free}`), free);
  assert.throws(() => parseOverride('allreduce:rign'), /there is no allreduce:rign; known: recursive-doubling/);
  assert.throws(() => parseOverride('alreduce:ring'), /there is no collective 'alreduce'; known: allreduce/);
  assert.throws(() => parseOverride('rign'), /no collective has an algorithm 'rign'/);
  assert.throws(
    () => selectAlgorithm('allreduce', shape, CLUSTER, parseOverride('allreduce:shared-direct')),
    /shared-direct: needs shared-memory/,
  );
  const { candidates } = selectAlgorithm('allreduce', shape, CLUSTER, parseOverride('allreduce:ring'));
  assert.equal(candidates.filter(({ verdict }) => verdict.kind === 'overridden').length, candidates.length - 1);
});
