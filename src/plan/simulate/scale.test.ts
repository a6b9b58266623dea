import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doubleBinaryTree } from '../../collectives/allreduce/double-binary-tree.js';
import { halvingDoubling } from '../../collectives/allreduce/halving-doubling.js';
import { ring } from '../../collectives/allreduce/ring.js';
import { parseTopology } from '../topology/registry.js';
import { makeFabric } from './fabric.js';
import { simulateRounds } from './rounds.js';

const bytes = 2 ** 30;

function cpuSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const used = process.cpuUsage(before);
  return (used.user + used.system) / 1e6;
}

function simulate(text: string, size: number, algorithm: typeof ring) {
  const { topology, parameters } = parseTopology(text);
  return simulateRounds(makeFabric(topology.build(parameters), size), { schedule: algorithm.schedule({ size, bytes }), bytes });
}

test('ring and halving-doubling of 1,024 ranks on a dragonfly simulate in under 10 s', (context) => {
  const seconds = cpuSeconds(() => {
    for (const algorithm of [ring, halvingDoubling]) {
      const result = simulate('dragonfly:p=4,a=8,h=4', 1024, algorithm);
      // no schedule is faster than its bytes through one port
      assert.ok(result.totalNs > (2 * bytes * 1023) / 1024 / 25);
    }
  });
  context.diagnostic(`${seconds.toFixed(1)} s of CPU`);
  assert.ok(seconds < 10);
});

test('16,384 ranks: halving-doubling, double tree and ring in under 2 minutes and 4 GB', (context) => {
  const seconds = cpuSeconds(() => {
    for (const algorithm of [ring, halvingDoubling, doubleBinaryTree]) {
      const result = simulate('fat-tree:radix=64,pods=16', 16_384, algorithm);
      assert.ok(result.totalNs > 0);
      if (algorithm === ring) assert.equal(result.steps, 32_766);
    }
  });
  const memory = process.memoryUsage().rss;
  context.diagnostic(`${seconds.toFixed(1)} s of CPU, ${(memory / 1e9).toFixed(2)} GB`);
  assert.ok(seconds < 120);
  assert.ok(memory < 4e9);
});
