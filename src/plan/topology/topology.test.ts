import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bisectionUpperBound, exactBisection } from '../../../test/plan/bisection.js';
import { PlanRefusal } from '../refusal.js';
import { cableClasses, degree, linkRoles, type Network, walkedDiameter } from './network.js';
import { growthCost } from './price.js';
import { parseTopology, topologies } from './registry.js';
import type { TopologyFigures } from './topology.js';

/** Everything the graph itself says, by walking it. */
function walk(network: Network) {
  const byCable: Record<string, number> = {};
  const byRole: Record<string, number> = {};
  for (let l = 0; l < network.links; l++) {
    const cable = cableClasses[network.cable[l]];
    const role = linkRoles[network.role[l]];
    byCable[cable] = (byCable[cable] ?? 0) + 1;
    byRole[role] = (byRole[role] ?? 0) + 1;
  }
  const switchDegrees: number[] = [];
  for (let v = network.endpoints; v < network.vertices; v++) switchDegrees.push(degree(network, v));
  const endpointDegrees = Array.from({ length: network.endpoints }, (_, v) => degree(network, v));
  const uniform = (values: number[]) => values.every((value) => value === values[0]);
  return {
    byCable,
    byRole,
    switches: network.vertices - network.endpoints,
    radix: Math.max(...(switchDegrees.length > 0 ? switchDegrees : endpointDegrees)),
    regular: uniform(switchDegrees) && uniform(endpointDegrees),
    diameter: walkedDiameter(network),
  };
}

function nonZero(counts: Readonly<Record<string, number | undefined>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0 && count !== undefined)) as Record<
    string,
    number
  >;
}

const small = [
  ...[2, 3, 4, 5, 8, 9].map((n) => `chain:n=${n}`),
  ...[3, 4, 5, 8, 11, 12].map((n) => `ring:n=${n}`),
  ...['2x2', '2x3', '2x4', '3x3', '3x4', '3x5', '4x4', '2x7', '4x3', '2x5', '5x3', '2x8'].map(
    (s) => `mesh:rows=${s.split('x')[0]},columns=${s.split('x')[1]}`,
  ),
  ...['3x3', '3x4', '4x4', '3x5', '5x3', '4x3'].map((s) => `torus:sizes=${s}`),
  ...['2x2x2', '2x2x2x2', '2x2', '2x4', '2x2x4'].map((s) => `torus:sizes=${s}`),
  'torus:sizes=4x4,board=2x2',
  ...['2,depth=1', '2,depth=2', '2,depth=3', '3,depth=1', '3,depth=2', '4,depth=2', '5,depth=1'].map((s) => `tree:k=${s}`),
  'leaf-spine:radix=4',
  'leaf-spine:radix=4,leaves=2',
  'leaf-spine:radix=6,leaves=4,down=4,up=2',
  'leaf-spine:radix=5,leaves=4,down=3,up=2,spines=2',
  'leaf-spine:radix=6,leaves=2,down=4,up=1',
  'fat-tree:radix=4',
  'fat-tree:radix=4,pods=2',
  'fat-tree:radix=4,levels=2',
  'blocking-fat-tree:radix=6,down=4,leaves=4',
  'blocking-fat-tree:radix=4,down=3,up=1,levels=3,leaves=4',
  'hamming-mesh:a=1,x=2',
  'hamming-mesh:a=2,x=2',
  'hamming-mesh:a=2,b=1,x=2,y=4',
];

test('closed forms equal the walked graph and the searched bisection on small sizes', () => {
  for (const text of small) {
    const { topology, parameters } = parseTopology(text);
    const figures = topology.figures(parameters);
    const network = topology.build(parameters);
    compare(text, figures, network);
    assert.equal(exactBisection(network), figures.bisection.links, `${text}: bisection`);
    assert.equal(figures.bisection.exactness, 'exact', `${text}: claims to be exact`);
  }
});

function compare(text: string, figures: TopologyFigures, network: Network): void {
  const walked = walk(network);
  assert.equal(network.endpoints, figures.endpoints, `${text}: endpoints`);
  assert.equal(network.links, figures.links.total, `${text}: links`);
  assert.deepEqual(nonZero(figures.links.byCable), walked.byCable, `${text}: cables`);
  assert.deepEqual(nonZero(figures.links.byRole), walked.byRole, `${text}: roles`);
  assert.equal(
    figures.switches,
    figures.kind === 'direct' && figures.switchSizes.length === 0 ? network.endpoints : walked.switches,
    `${text}: switches`,
  );
  assert.equal(figures.radix, walked.radix, `${text}: radix`);
  assert.equal(figures.diameter.cables, walked.diameter, `${text}: diameter`);
  assert.equal(figures.regular, walked.regular, `${text}: regular`);
}

test('closed forms equal the walked graph on middle sizes', () => {
  const middle = [
    'torus:sizes=8x6',
    'torus3d:sizes=4x4x4',
    'torus3d:sizes=3x4x5',
    'fat-tree:radix=8',
    'fat-tree:radix=6,pods=3',
    'leaf-spine:radix=16',
    'blocking-fat-tree:radix=8,down=5,levels=3,leaves=16',
    'dragonfly:p=1,a=2,h=1',
    'dragonfly:p=2,a=4,h=2',
    'dragonfly:p=2,a=3,h=1',
    'dragonfly:p=3,a=6,h=3',
    'dragonfly:p=2,a=4,h=2,perBox=2',
    'dragonfly-plus:p=2',
    'dragonfly-plus:p=3',
    'dragonfly-plus:p=2,l=3,s=2,h=3',
    'hamming-mesh:a=2,x=4',
    'hamming-mesh:a=4,x=2',
    'hamming-mesh:a=3,b=2,x=3,y=2',
    'hamming-mesh:a=3,x=4',
    'hamming-mesh:a=2,x=4,radix=4',
    'hamming-mesh:a=1,x=6,radix=6',
    'hyperx:sizes=4x4,endpoints=2',
    'hyperx:sizes=3x4x2,endpoints=1',
    'hyperx:sizes=6x3,endpoints=3,parallel=1x2',
    'hyperx:sizes=5,endpoints=2',
    ...[4, 5, 7, 8, 9, 11].map((q) => `slim-fly:q=${q},p=1`),
  ];
  for (const text of middle) {
    const { topology, parameters } = parseTopology(text);
    compare(text, topology.figures(parameters), topology.build(parameters));
  }
});

test('with fewer groups than ports allow, a dragonfly uses every port it can and stays within three hops', () => {
  for (const text of [
    'dragonfly:p=2,a=4,h=2,groups=5',
    'dragonfly:p=2,a=4,h=2,groups=6',
    'dragonfly:p=2,a=4,h=2,groups=2',
    'dragonfly-plus:p=3,groups=5',
    'dragonfly:p=1,a=3,h=3,groups=7',
  ]) {
    const { topology, parameters } = parseTopology(text);
    const figures = topology.figures(parameters);
    const network = topology.build(parameters);
    const walked = walk(network);
    assert.equal(figures.links.byRole.global, walked.byRole['global'], text);
    assert.ok(walked.diameter <= figures.diameter.cables, text);
    assert.equal(walked.radix, figures.radix, text);
  }
});

test('a search from group-aligned halves finds no cut much below the estimates of dragonfly, dragonfly+, HyperX and Slim Fly', () => {
  const cases: [string, number][] = [
    ['dragonfly:p=2,a=4,h=2', 0.05],
    ['dragonfly-plus:p=3', 0.05],
    ['hyperx:sizes=4x4,endpoints=2', 0.01],
    ['hyperx:sizes=4x2,endpoints=1', 0.01],
    ['slim-fly:q=5,p=2', 0.35],
  ];
  for (const [text, tolerance] of cases) {
    const { topology, parameters } = parseTopology(text);
    const figures = topology.figures(parameters);
    const network = topology.build(parameters);
    const half = Math.floor(network.endpoints / 2);
    const first = new Uint8Array(network.endpoints).fill(1, 0, half);
    const alternating = new Uint8Array(network.endpoints).map((_, i) => i % 2);
    const found = bisectionUpperBound(network, [first, alternating]);
    assert.ok(
      found >= figures.bisection.links * (1 - tolerance),
      `${text}: found a cut of ${found}, the estimate is ${figures.bisection.links}`,
    );
  }
});

test('figures for 100,000 endpoints come at once, for every topology', () => {
  const started = process.cpuUsage();
  for (const topology of topologies) {
    const figures = topology.figures(topology.fit(100_000, 512));
    assert.ok(figures.endpoints >= 100_000, topology.name);
    assert.ok(figures.radix <= 512, topology.name);
  }
  assert.ok(process.cpuUsage(started).user < 5e6);
});

test('every topology grows by its next step, and the step adds endpoints', () => {
  for (const topology of topologies) {
    let parameters = topology.fit(64, 32);
    for (let i = 0; i < 5; i++) {
      const before = topology.figures(parameters).endpoints;
      const step = topology.grow(parameters);
      assert.ok(topology.figures(step.parameters).endpoints > before, `${topology.name} ${JSON.stringify(step.parameters)}`);
      parameters = step.parameters;
    }
  }
});

test('whatever size and radix are asked for, a fitted network holds the endpoints, keeps to the radix, matches its graph and can grow, or is refused with a reason', () => {
  let built = 0;
  for (const radix of [3, 4, 6, 8, 16, 36]) {
    for (const endpoints of [2, 5, 16, 31, 64, 100]) {
      for (const topology of topologies) {
        const what = `${topology.name} for ${endpoints} endpoints, radix ${radix}`;
        let figures: TopologyFigures;
        let network: Network;
        try {
          figures = topology.figures(topology.fit(endpoints, radix));
          network = topology.build(figures.parameters);
        } catch (error) {
          assert.ok(error instanceof PlanRefusal, `${what}: ${error}`);
          continue;
        }
        built++;
        assert.ok(figures.endpoints >= endpoints, what);
        assert.ok(figures.radix <= radix || figures.switchSizes.length === 0, what);
        assert.equal(network.links, figures.links.total, `${what}: links`);
        if (figures.switchSizes.length > 0)
          assert.equal(network.vertices - network.endpoints, figures.switches, `${what}: switches`);
        assert.ok(walkedDiameter(network) <= figures.diameter.cables, `${what}: diameter`);
        assert.ok(growthCost(topology, figures.parameters).addedEndpoints > 0, `${what}: growth`);
      }
    }
  }
  assert.ok(built > 300, String(built));
});

test('illegal parameters are refused with the reason and the nearest legal value', () => {
  const refused: [string, RegExp][] = [
    ['fat-tree:radix=7', /odd.*nearest legal value: 8/],
    ['fat-tree:radix=8,pods=9', /nearest legal value: pods=8/],
    ['slim-fly:q=6', /prime power.*nearest legal value: q=5/],
    ['slim-fly:q=15', /prime power.*q=1[36]/],
    ['dragonfly:p=2,groups=99', /8 global ports.*groups=9/],
    ['dragonfly:p=2,a=4,perBox=3', /perBox=2/],
    ['ring:n=2', /at least 3; nearest legal value: 3/],
    ['ring:size=4', /no parameter "size"/],
    ['ring', /needs n/],
    ['torus:sizes=6x6,board=4x4', /nearest legal value: 8/],
    ['leaf-spine:radix=8,down=6,up=4', /up=2/],
    ['hamming-mesh:a=2,x=20,radix=8', /two levels/],
    ['dragonflie:p=2', /nearest legal value: dragonfly/],
  ];
  for (const [text, pattern] of refused) {
    assert.throws(() => {
      const { topology, parameters } = parseTopology(text);
      topology.figures(parameters);
    }, pattern);
  }
  assert.throws(() => topologies.find((t) => t.name === 'leaf-spine')?.fit(1000, 8), /ends at 32 endpoints/);
});
