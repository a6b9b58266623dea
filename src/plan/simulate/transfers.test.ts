import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Network, NetworkBuilder } from '../topology/network.js';
import { parseTopology } from '../topology/registry.js';
import { type FabricOptions, makeFabric } from './fabric.js';
import { MaxMinSolver } from './max-min.js';
import { runTogether } from './transfers.js';

function build(text: string): Network {
  const { topology, parameters } = parseTopology(text);
  return topology.build(parameters);
}

function fullyConnected(n: number): Network {
  const builder = new NetworkBuilder('fully connected', n);
  for (let a = 0; a < n; a++) for (let b = a + 1; b < n; b++) builder.addLink(a, b, 'mesh', 'aoc');
  return builder.build({ endpointsForward: true });
}

// The set-up of ASTRA-sim's analytical network tests: 16 nodes, 50 GiB/s, 500 ns a hop, messages of 1 MiB, no overhead.
const astra: FabricOptions = { linkBytesPerSecond: 50 * 2 ** 30, hopLatencyNs: 500, overheadNs: 0 };

function sendNs(network: Network, options: FabricOptions): number {
  const fabric = makeFabric(network, 16, options);
  return Math.floor(runTogether(fabric, [{ path: fabric.path(1, 4), bytes: 2 ** 20 }])[0]);
}

test('cross-simulator values, without queues: ring 21,031, fully connected 20,031, switch 20,531 ns', () => {
  assert.equal(sendNs(build('ring:n=16'), astra), 21_031);
  assert.equal(sendNs(fullyConnected(16), astra), 20_031);
  assert.equal(sendNs(build('tree:k=16,depth=1'), astra), 20_531);
});

test('cross-simulator values, store and forward: ring 60,093, fully connected 20,031, switch 40,062 ns', () => {
  const aware: FabricOptions = { ...astra, switching: 'store-and-forward', wholeNanoseconds: true };
  assert.equal(sendNs(build('ring:n=16'), aware), 60_093);
  assert.equal(sendNs(fullyConnected(16), aware), 20_031);
  assert.equal(sendNs(build('tree:k=16,depth=1'), aware), 40_062);
});

test('cross-simulator value: the direct all-gather on a ring of 16 takes 704,116 ns', () => {
  const fabric = makeFabric(build('ring:n=16'), 16, { ...astra, switching: 'store-and-forward', wholeNanoseconds: true });
  const paths: number[][] = [];
  for (let from = 0; from < 16; from++) for (let away = 1; away < 16; away++) paths.push(fabric.path(from, (from + away) % 16));
  const arrival = runTogether(
    fabric,
    paths.map((path) => ({ path, bytes: 2 ** 20 })),
  );
  assert.equal(Math.max(...arrival), 704_116);
});

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
