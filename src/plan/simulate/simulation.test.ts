import assert from 'node:assert/strict';
import { test } from 'node:test';
import { halvingDoubling } from '../../collectives/allreduce/halving-doubling.js';
import { hierarchicalAllreduce } from '../../collectives/allreduce/hierarchical.js';
import { inNetwork } from '../../collectives/allreduce/in-network.js';
import { parameterServerDedicated } from '../../collectives/allreduce/parameter-server-dedicated.js';
import { recursiveDoubling } from '../../collectives/allreduce/recursive-doubling.js';
import { ring } from '../../collectives/allreduce/ring.js';
import { evenSplit } from '../../schedule/split.js';
import { regularTopology } from '../../schedule/topology.js';
import { walkSchedule } from '../../schedule/walk.js';
import { parseTopology } from '../topology/registry.js';
import { simulateEvents } from './events.js';
import { type FabricOptions, makeFabric } from './fabric.js';
import { simulateRounds } from './rounds.js';

function fabricOf(text: string, ranks?: number, options: FabricOptions = {}) {
  const { topology, parameters } = parseTopology(text);
  const network = topology.build(parameters);
  return makeFabric(network, ranks ?? network.endpoints, options);
}

test('on one switch, rounds, events and the cost formula agree', () => {
  const bytes = 1 << 24;
  const size = 8;
  const options: FabricOptions = { linkBytesPerSecond: 10e9, hopLatencyNs: 100, overheadNs: 500, reduceBytesPerSecond: 50e9 };
  const fabric = fabricOf('tree:k=8,depth=1', size, options);
  for (const algorithm of [ring, recursiveDoubling, halvingDoubling]) {
    const schedule = algorithm.schedule({ size, bytes });
    const cost = algorithm.cost({ size, bytes });
    const alphas = cost.terms.reduce((sum, term) => sum + term.alpha, 0);
    const betas = cost.terms.reduce((sum, term) => sum + term.beta, 0);
    const formula = alphas * (500 + 2 * 100) + betas / 10 + cost.gamma / 50;
    const rounds = simulateRounds(fabric, { schedule, bytes }).totalNs;
    const events = simulateEvents(fabric, { schedule, bytes }).totalNs;
    assert.ok(Math.abs(rounds - formula) < 1e-6 * formula, `${algorithm.name}: rounds ${rounds}, formula ${formula}`);
    assert.ok(Math.abs(events - formula) < 1e-6 * formula, `${algorithm.name}: events ${events}, formula ${formula}`);
  }
});

test('contention shows: recursive doubling of 64 on a 2:1 blocking tree is slower than on a non-blocking one, the ring is not', () => {
  const bytes = 1 << 26;
  const blocking = fabricOf('leaf-spine:radix=12,leaves=8,down=8,up=4');
  const full = fabricOf('leaf-spine:radix=16,leaves=8,down=8,up=8');
  const time = (fabric: ReturnType<typeof fabricOf>, algorithm: typeof ring) =>
    simulateRounds(fabric, { schedule: algorithm.schedule({ size: 64, bytes }), bytes }).totalNs;
  assert.ok(time(blocking, recursiveDoubling) > 1.3 * time(full, recursiveDoubling));
  assert.ok(time(blocking, ring) < 1.01 * time(full, ring));
});

test('channel loads add up: bytes on host links are what the walked schedule sends', () => {
  const bytes = 1 << 20;
  const fabric = fabricOf('fat-tree:radix=4');
  const workload = { schedule: ring.schedule({ size: 16, bytes }), bytes };
  const { channelBytes } = simulateRounds(fabric, workload);
  const { network } = fabric;
  let hosts = 0;
  for (let channel = 0; channel < 2 * network.links; channel++)
    if (network.tail[channel] < network.endpoints) hosts += channelBytes[channel];
  assert.equal(hosts, walkSchedule(workload.schedule, evenSplit(bytes, 16)).traffic);
});

test('in-network reduction runs with switches as actors, needs one pass each way, and beats the ring', () => {
  const bytes = 1 << 26;
  const fabric = fabricOf('fat-tree:radix=8,pods=4', 64);
  const tree = inNetwork.schedule({ size: 64, bytes, radix: 4, segments: 64 });
  const inSwitches = simulateRounds(fabric, { schedule: tree, bytes }).totalNs;
  const onRing = simulateRounds(fabricOf('fat-tree:radix=8,pods=4', 64), {
    schedule: ring.schedule({ size: 64, bytes }),
    bytes,
  }).totalNs;
  assert.ok(inSwitches < 0.75 * onRing, `${inSwitches} against ${onRing}`);
  const n = bytes / 25;
  assert.ok(inSwitches >= n, 'every host still sends the whole vector once');
  const events = simulateEvents(fabric, { schedule: tree, bytes }).totalNs;
  assert.ok(events >= n && events < 1.2 * n, `${events / n} passes`);
});

test('a network without switches refuses in-network reduction', () => {
  const schedule = inNetwork.schedule({ size: 8, bytes: 1024 });
  assert.throws(() => simulateRounds(fabricOf('ring:n=8'), { schedule, bytes: 1024 }), /no switches that could reduce/);
});

test('dedicated parameter servers take endpoints of their own, and one server is an incast', () => {
  const bytes = 1 << 20;
  const one = parameterServerDedicated.schedule({ size: 8, bytes, servers: 1 });
  const eight = parameterServerDedicated.schedule({ size: 8, bytes, servers: 8 });
  const time = (schedule: typeof one) =>
    simulateRounds(
      fabricOf('tree:k=16,depth=1', 8, { hopLatencyNs: 0, overheadNs: 0 }),
      { schedule, bytes },
      { helpers: 'endpoints' },
    ).totalNs;
  assert.ok(time(one) > 6 * time(eight), `${time(one)} ${time(eight)}`);
  assert.throws(
    () => simulateRounds(fabricOf('ring:n=8'), { schedule: one, bytes }, { helpers: 'endpoints' }),
    /need endpoints of their own/,
  );
});

test('hierarchical all-reduce keeps most bytes inside the hosts and beats the flat halving-doubling', () => {
  const bytes = 1 << 28;
  const options: FabricOptions = { ranksPerEndpoint: 8, hostBytesPerSecond: 300e9 };
  const topology = regularTopology({ hosts: 16, ranksPerHost: 8 });
  const time = (algorithm: typeof ring) =>
    simulateRounds(fabricOf('leaf-spine:radix=8,leaves=4', 128, options), {
      schedule: algorithm.schedule({ size: 128, bytes, topology }),
      bytes,
    }).totalNs;
  assert.ok(time(hierarchicalAllreduce) < 0.5 * time(halvingDoubling), `${time(hierarchicalAllreduce)} ${time(halvingDoubling)}`);
});

test('store-and-forward of a schedule is never faster than cut-through', () => {
  const bytes = 1 << 22;
  for (const algorithm of [ring, halvingDoubling]) {
    const time = (switching: 'cut-through' | 'store-and-forward') =>
      simulateEvents(fabricOf('fat-tree:radix=4', 16, { switching }), {
        schedule: algorithm.schedule({ size: 16, bytes }),
        bytes,
      }).totalNs;
    assert.ok(time('store-and-forward') >= time('cut-through'), algorithm.name);
  }
});

test('requests chained in the NIC save the overhead of every message but the first, in both simulations', () => {
  const bytes = 1 << 12;
  const workload = { schedule: ring.schedule({ size: 8, bytes }), bytes };
  const time = (simulate: typeof simulateRounds | typeof simulateEvents, triggeredNs: number) =>
    simulate(fabricOf('tree:k=8,depth=1', 8, { overheadNs: 600, triggeredNs }), workload).totalNs;
  for (const simulate of [simulateRounds, simulateEvents]) {
    const saved = time(simulate, 600) - time(simulate, 50);
    assert.ok(Math.abs(saved - 13 * 550) < 1e-6, `${simulate.name}: saved ${saved}`);
  }
});
