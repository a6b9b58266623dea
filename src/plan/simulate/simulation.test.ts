import assert from 'node:assert/strict';
import { test } from 'node:test';
import { halvingDoubling } from '../../collectives/allreduce/halving-doubling.js';
import { recursiveDoubling } from '../../collectives/allreduce/recursive-doubling.js';
import { ring } from '../../collectives/allreduce/ring.js';
import { parseTopology } from '../topology/registry.js';
import { takeCensus } from './census.js';
import { simulateEvents } from './events.js';
import { type FabricOptions, makeFabric } from './fabric.js';
import { simulateRounds } from './rounds.js';

function fabricOf(text: string, ranks?: number, options: FabricOptions = {}) {
  const { topology, parameters } = parseTopology(text);
  const network = topology.build(parameters);
  return makeFabric(network, ranks ?? network.endpoints, options);
}

test('the census of a walked schedule equals the closed forms', () => {
  const bytes = 1 << 20;
  for (const size of [2, 4, 8, 16]) {
    const walkedRing = takeCensus({ schedule: ring.schedule({ size, bytes }), bytes });
    assert.equal(walkedRing.rounds, 2 * (size - 1));
    assert.equal(walkedRing.busiestSenderBytes, (2 * bytes * (size - 1)) / size);
    assert.equal(walkedRing.peakFanIn, 1);
    assert.equal(walkedRing.busiestWorkBytes, (bytes * (size - 1)) / size);
    const doubling = takeCensus({ schedule: recursiveDoubling.schedule({ size, bytes }), bytes });
    assert.equal(doubling.busiestSenderBytes, bytes * Math.log2(size));
    assert.equal(doubling.peakSentBytes, bytes);
  }
});

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

test('channel loads add up: bytes on host links are what the census says was sent and received', () => {
  const bytes = 1 << 20;
  const fabric = fabricOf('fat-tree:radix=4');
  const workload = { schedule: ring.schedule({ size: 16, bytes }), bytes };
  const { channelBytes } = simulateRounds(fabric, workload);
  const { network } = fabric;
  let hosts = 0;
  for (let channel = 0; channel < 2 * network.links; channel++)
    if (network.tail[channel] < network.endpoints) hosts += channelBytes[channel];
  assert.equal(hosts, takeCensus(workload).totalBytes);
});
