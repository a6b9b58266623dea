import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALGORITHMS } from '../collectives/registry.js';
import type { Collective } from '../schedule/schedule.js';
import { compareAlgorithms } from './comparison.js';
import { parseTopology } from './topology/registry.js';

function build(text: string) {
  const { topology, parameters } = parseTopology(text);
  return topology.build(parameters);
}

test('every algorithm of every collective runs on a fat tree, or says why not', () => {
  const network = build('fat-tree:radix=4');
  for (const collective of Object.keys(ALGORITHMS) as Collective[]) {
    const { rows, left } = compareAlgorithms({ collective, network, bytes: 1 << 20 });
    assert.equal(rows.length + left.length, ALGORITHMS[collective].length, collective);
    for (const row of rows) {
      assert.ok(Number.isFinite(row.simulatedNs) && row.simulatedNs > 0, `${collective} ${row.algorithm}`);
      assert.ok(
        row.latencyNs > 0 && row.latencyNs <= row.simulatedNs * 1.0001,
        `${collective} ${row.algorithm}: latency ${row.latencyNs}, total ${row.simulatedNs}`,
      );
    }
    for (const { algorithm, reason } of left) assert.ok(reason.length > 10, `${collective} ${algorithm}`);
  }
});

test('on one switch the simulation stays near the formula for algorithms that send one message a round', () => {
  const network = build('tree:k=16,depth=1');
  const { rows } = compareAlgorithms({
    collective: 'allreduce',
    network,
    bytes: 1 << 24,
    algorithms: ['ring', 'recursive-doubling', 'halving-doubling'],
  });
  for (const row of rows)
    assert.ok(Math.abs(row.simulatedNs / row.formulaNs - 1) < 0.01, `${row.algorithm} ${row.simulatedNs} ${row.formulaNs}`);
});

test('small vectors go to the latency-optimal form, large ones to the bandwidth-optimal one', () => {
  const network = build('leaf-spine:radix=8');
  const algorithms = ['ring', 'recursive-doubling', 'halving-doubling', 'linear'];
  const winner = (bytes: number) => compareAlgorithms({ collective: 'allreduce', network, bytes, algorithms }).rows[0].algorithm;
  assert.equal(winner(64), 'recursive-doubling');
  assert.notEqual(winner(1 << 28), 'recursive-doubling');
});

test('the straight line from one simulation meets simulations of other sizes', () => {
  const network = build('dragonfly:p=2');
  const at = (bytes: number) => compareAlgorithms({ collective: 'allreduce', network, bytes, ranks: 64 }).rows;
  const large = at(1 << 26);
  for (const small of at(1 << 20)) {
    const line = large.find((row) => row.algorithm === small.algorithm);
    if (line === undefined || line.segments !== small.segments) continue;
    const expected = line.latencyNs + (line.simulatedNs - line.latencyNs) / 64;
    assert.ok(
      Math.abs(expected / small.simulatedNs - 1) < 0.02,
      `${small.algorithm}: line ${expected}, simulated ${small.simulatedNs}`,
    );
  }
});

test('unknown algorithms are refused with the list of those there are', () => {
  assert.throws(
    () => compareAlgorithms({ collective: 'allreduce', network: build('ring:n=4'), bytes: 4, algorithms: ['rong'] }),
    /there are recursive-doubling/,
  );
});
