import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planCluster } from './plan-a-cluster.js';

test('the example finds a network, an algorithm that keeps bytes inside the hosts, and a plan with tensor parallelism inside the host', () => {
  const lines: string[] = [];
  const { network, algorithm, plan } = planCluster((line) => lines.push(line));
  assert.ok(network.length > 0 && lines.some((line) => line.endsWith(`-> ${network}`)));
  assert.equal(algorithm, 'hierarchical');
  assert.ok(plan.tensor <= 8);
  assert.ok(lines.some((line) => /% slower|needs \d+ GB/.test(line)));
});
