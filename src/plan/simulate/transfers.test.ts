import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Network } from '../topology/network.js';
import { parseTopology } from '../topology/registry.js';
import { type FabricOptions, makeFabric } from './fabric.js';
import { MaxMinSolver } from './max-min.js';
import { runTogether } from './transfers.js';

function build(text: string): Network {
  const { topology, parameters } = parseTopology(text);
  return topology.build(parameters);
}

test('max-min: a flow held back elsewhere leaves its share to the others', () => {
  // channel 0 carries flows 0, 1, 2; flow 2 also crosses channel 1, which is narrow
  const rates = new Float64Array(4);
  new MaxMinSolver(Float64Array.of(30, 4, 100)).solve([[0], [0], [0, 1], [2]], rates);
  assert.deepEqual([...rates], [13, 13, 4, 100]);
});

test('fan-in: sixteen senders share the last link of one receiver', () => {
  const fabric = makeFabric(build('tree:k=17,depth=1'), 17, { linkBytesPerSecond: 1e9, hopLatencyNs: 0 });
  const paths = Array.from({ length: 16 }, (_, i) => fabric.path(i + 1, 0));
  const arrival = runTogether(
    fabric,
    paths.map((path) => ({ path, bytes: 1000 })),
  );
  for (const time of arrival) assert.ok(Math.abs(time - 16_000) < 1e-3, String(time));
});

test('a flow speeds up when another one ends', () => {
  const fabric = makeFabric(build('tree:k=3,depth=1'), 3, { linkBytesPerSecond: 1e9, hopLatencyNs: 0 });
  const arrival = runTogether(fabric, [
    { path: fabric.path(1, 0), bytes: 1000 },
    { path: fabric.path(2, 0), bytes: 3000 },
  ]);
  assert.ok(Math.abs(arrival[0] - 2000) < 1e-3);
  assert.ok(Math.abs(arrival[1] - 4000) < 1e-3);
});

test('ranks of one host talk over the host, not over the network', () => {
  const fabric = makeFabric(build('tree:k=2,depth=1'), 4, {
    ranksPerEndpoint: 2,
    hostBytesPerSecond: 100e9,
    hostLatencyNs: 10,
    linkBytesPerSecond: 1e9,
    hopLatencyNs: 0,
  });
  const arrival = runTogether(fabric, [
    { path: fabric.path(0, 1), bytes: 1000 },
    { path: fabric.path(0, 2), bytes: 1000 },
  ]);
  assert.ok(Math.abs(arrival[0] - 20) < 1e-6);
  assert.ok(Math.abs(arrival[1] - 1000) < 1e-6);
});

test('unknown fabric options and too many ranks are refused', () => {
  const network = build('ring:n=4');
  assert.throws(() => makeFabric(network, 5), /ranks is 5.*nearest legal value: 4/);
  assert.throws(() => makeFabric(network, 4, { bandwidth: 1 } as FabricOptions), /no option "bandwidth"/);
});
