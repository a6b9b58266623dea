import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DROPPED, Network, starNetwork } from './network.js';

/** Sends a packet over all links of its path, one after the other. */
function send(network: Network, from: number, to: number, bytes: number, now: number): number {
  let at = now;
  for (let hop = 0; hop < network.hops(from, to) && at !== DROPPED; hop++) at = network.pass(from, to, hop, bytes, at);
  return at;
}

test('a packet takes its length over the bandwidth and the latency, on every link of its path', () => {
  const network = new Network(undefined, { bitsPerSecond: 8e9, latencyNs: 100 });
  assert.equal(send(network, 0, 1, 1000, 0), 2 * (1000 + 100));
  assert.equal(send(network, 0, 1, 1000, 0), 2 * (1000 + 100) + 1000, 'the second waits for the first');
  assert.equal(send(network, 2, 3, 1000, 0), 2200, 'others do not');
});

test('many senders to one receiver queue at its link, and a full queue drops', () => {
  const link = { bitsPerSecond: 8e9, latencyNs: 0, queueBytes: 2000 };
  for (const network of [new Network(starNetwork(8, link), {}), new Network(undefined, link)]) {
    const arrivals = [1, 2, 3, 4, 5].map((from) => send(network, from, 0, 1000, 0));
    assert.deepEqual(arrivals, [2000, 3000, 4000, DROPPED, DROPPED]);
    assert.equal(send(network, 1, 0, 1000, 4000), 6000, 'when the queue is empty again there is room');
  }
});

test('a burst of one sender waits in its own memory and is not dropped', () => {
  const network = new Network(undefined, { bitsPerSecond: 8e9, latencyNs: 0, queueBytes: 1000 });
  for (let i = 0; i < 50; i++) assert.notEqual(send(network, 0, 1, 1000, 0), DROPPED);
});

test('a topology may have paths of any length', () => {
  const links = [{ latencyNs: 1 }, { latencyNs: 20 }, { latencyNs: 300 }];
  const network = new Network({ links, path: (from) => (from === 0 ? [0, 1, 2] : [2]) }, {});
  assert.equal(network.hops(0, 1), 3);
  assert.equal(send(network, 0, 1, 0, 0), 321);
  assert.equal(send(network, 1, 0, 0, 1000), 1300);
});
