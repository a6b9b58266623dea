import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distance, listedTopology, regularTopology } from '../schedule/topology.js';
import { hostCrossings, ringOrder, ringOrders, treeOrder } from './order.js';
import { sampleTopologies } from './sample-shapes.js';

/** Ranks dealt to hosts like cards: the worst placement for a ring in rank order. */
const DEALT = listedTopology(
  Array.from({ length: 8 }, (_, rank) => ({ host: rank % 2, numa: Math.floor(rank / 2) % 2, nic: Math.floor(rank / 2) % 2 })),
  2,
);

test('a ring crosses between hosts once per host, however ranks were dealt', () => {
  assert.equal(hostCrossings(DEALT, [0, 1, 2, 3, 4, 5, 6, 7]), 8);
  assert.deepEqual(ringOrder(DEALT), [0, 4, 2, 6, 1, 5, 3, 7]);
  assert.equal(hostCrossings(DEALT, ringOrder(DEALT)), 2);
  for (let size = 1; size <= 24; size++) {
    for (const topology of sampleTopologies(size)) {
      const order = ringOrder(topology);
      assert.deepEqual(
        [...order].sort((a, b) => a - b),
        Array.from({ length: size }, (_, rank) => rank),
      );
      assert.equal(hostCrossings(topology, order), topology.hosts === 1 ? 0 : topology.hosts);
    }
  }
});

test('inside a host a ring visits one NUMA node after the other', () => {
  const order = ringOrder(DEALT);
  const changes = order.filter((rank, k) => distance(DEALT, rank, order[(k + 1) % order.length]) === 2).length;
  assert.equal(changes, 2);
});

test('one ring per NIC, each entering and leaving every host at a rank near its NIC', () => {
  const topology = regularTopology({ hosts: 3, ranksPerHost: 4, numaPerHost: 2, nicsPerHost: 2 });
  const orders = ringOrders(topology);
  assert.deepEqual(orders[0].slice(0, 4), [0, 2, 3, 1]);
  assert.deepEqual(orders[1].slice(0, 4), [2, 0, 1, 3]);
  orders.forEach((order, nic) => {
    assert.equal(hostCrossings(topology, order), 3);
    for (let k = 0; k < order.length; k++) {
      const next = order[(k + 1) % order.length];
      if (distance(topology, order[k], next) !== 3) continue;
      assert.equal(topology.placement(order[k]).nic, nic);
      assert.equal(topology.placement(next).nic, nic);
    }
  });
});

test('a host without a rank near some NIC still takes part in its ring', () => {
  const topology = listedTopology(
    [0, 0, 1, 1].map((host) => ({ host, numa: 0, nic: host })),
    2,
  );
  for (const order of ringOrders(topology)) assert.equal(hostCrossings(topology, order), 2);
});

test('a tree starts at its root and fills hosts one after the other', () => {
  const order = treeOrder(DEALT, 3);
  assert.equal(order[0], 3);
  assert.deepEqual(
    order.slice(1, 4).map((rank) => DEALT.placement(rank).host),
    [1, 1, 1],
  );
  assert.equal(distance(DEALT, order[0], order[1]), 1);
  assert.equal(new Set(order).size, 8);
});
