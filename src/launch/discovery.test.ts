import assert from 'node:assert/strict';
import { it } from 'node:test';
import { distance } from '../schedule/topology.js';
import { hostsOf, topologyOf } from './discovery.js';
import type { Member } from './member.js';

const member = (rank: number, host: string, numa: number, nics: Member['nics'] = []): Member => ({
  rank,
  host: { id: host, machine: host, boot: host, name: host },
  pid: rank,
  startTime: 1,
  numa,
  nics,
  addresses: [],
  engine: 'auto',
  node: 'v20',
});

it('ranks are grouped by host in the order of their lowest rank, wherever the launcher put them', () => {
  const hosts = hostsOf([member(0, 'b', 0), member(1, 'a', 0), member(2, 'b', 0), member(3, 'a', 0)]);
  assert.deepEqual(hosts, [
    { index: 0, name: 'b', ranks: [0, 2] },
    { index: 1, name: 'a', ranks: [1, 3] },
  ]);
});

it('the topology knows who shares a host and a NUMA node', () => {
  const topology = topologyOf([member(0, 'a', 0), member(1, 'a', 0), member(2, 'a', 1), member(3, 'b', 0)]);
  assert.equal(topology.hosts, 2);
  assert.deepEqual(
    [1, 2, 3].map((rank) => distance(topology, 0, rank)),
    [1, 2, 3],
  );
});

it('a rank gets a NIC of its own NUMA node, and neighbours share them in turn', () => {
  const nics = [
    { name: 'mlx5_0', numa: 0, active: true },
    { name: 'mlx5_1', numa: 1, active: true },
  ];
  const topology = topologyOf([member(0, 'a', 0, nics), member(1, 'a', 1, nics), member(2, 'a', -1, nics)]);
  assert.deepEqual(
    [0, 1, 2].map((rank) => topology.placement(rank).nic),
    [0, 1, 0],
  );
  assert.equal(topology.nicsPerHost, 2);
  assert.equal(topologyOf([member(0, 'a', 0)]).placement(0).nic, -1);
});
