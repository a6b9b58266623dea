import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distance, listedTopology, regularTopology } from './topology.js';

test('a regular cluster places ranks block by block, NUMA node by NUMA node, each near a NIC', () => {
  const topology = regularTopology({ hosts: 2, ranksPerHost: 4, numaPerHost: 2, nicsPerHost: 2 });
  assert.deepEqual(
    Array.from({ length: 8 }, (_, rank) => Object.values(topology.placement(rank)).join(' ')),
    ['0 0 0', '0 0 0', '0 1 1', '0 1 1', '1 0 0', '1 0 0', '1 1 1', '1 1 1'],
  );
  assert.deepEqual(topology.ranksOf(1), [4, 5, 6, 7]);
  assert.deepEqual(
    [distance(topology, 0, 0), distance(topology, 0, 1), distance(topology, 0, 2), distance(topology, 0, 4)],
    [0, 1, 2, 3],
  );
});

test('a listed topology knows whether it is regular', () => {
  const place = (host: number) => ({ host, numa: 0, nic: 0 });
  assert.equal(listedTopology([place(0), place(0), place(1), place(1)]).ranksPerHost, 2);
  assert.equal(listedTopology([place(0), place(1), place(0), place(1)]).ranksPerHost, undefined);
  assert.equal(listedTopology([place(0), place(0), place(1)]).ranksPerHost, undefined);
  assert.deepEqual(listedTopology([place(0), place(1), place(0)]).ranksOf(0), [0, 2]);
});

test('impossible topologies are refused', () => {
  assert.throws(() => regularTopology({ hosts: 0 }), /hosts must be an integer >= 1/);
  assert.throws(() => regularTopology({ hosts: 1 }).placement(1), /rank must be 0 \.\. 0/);
  assert.throws(() => listedTopology([]), /at least one rank/);
  assert.throws(() => listedTopology([{ host: 1, numa: 0, nic: 0 }]), /without gaps/);
});

test('16,384 ranks cost no table', () => {
  const topology = regularTopology({ hosts: 2048, ranksPerHost: 8, nicsPerHost: 8 });
  assert.deepEqual(topology.placement(16383), { host: 2047, numa: 0, nic: 7 });
});
