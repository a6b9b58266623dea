/** The commands around collectives that start ranks: explain --measure and the table of bench collectives. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verbena, verbenaJson } from './verbena.js';

interface Explained {
  readonly chosen: string;
  readonly medianError: number;
  readonly candidates: readonly {
    readonly name: string;
    readonly us?: number;
    readonly measuredUs?: number;
    readonly error?: number;
  }[];
}

test('explain --measure shows every candidate that can run here beside its prediction', async () => {
  const { chosen, candidates, medianError } = await verbenaJson<Explained>([
    ...['explain', 'allgather', '--ranks', '2', '--size', '64K', '--measure'],
  ]);
  const measured = candidates.filter(({ measuredUs }) => measuredUs !== undefined);
  assert.ok(measured.some(({ name }) => name === chosen));
  for (const name of ['ring', 'bruck', 'shared-direct'])
    assert.ok(
      measured.some((one) => one.name === name),
      name,
    );
  for (const { name, us = 0, measuredUs = 0, error = 0 } of measured) {
    assert.ok(measuredUs > 0.1 && measuredUs < 1e6, `${name}: ${measuredUs} us`);
    assert.ok(Math.abs(us / measuredUs - 1 - error) < 1e-9, name);
  }
  assert.ok(medianError >= 0);
});

test('explain shows the order of ranks on several hosts: as few edges between hosts as there are hosts', async () => {
  const { order } = await verbenaJson<{ order: { rings: number[][]; crossings: number[]; tree: number[] } }>([
    ...['explain', 'allreduce', '--ranks', '8', '--hosts', '4', '--nics', '2', '--placement', 'cyclic'],
  ]);
  assert.deepEqual(order.crossings, [4, 4]);
  assert.deepEqual(order.rings[0], [0, 4, 1, 5, 2, 6, 3, 7]);
  assert.equal(order.tree.length, 8);
  const refused = await verbena(['explain', 'allreduce', '--ranks', '8', '--hosts', '3']);
  assert.ok(refused.code !== 0 && refused.stderr.includes('--ranks must be a multiple of --hosts'));
});

test('bench collectives measures the rows asked for and names a peer that is not there', async () => {
  const { rows, wrong } = await verbenaJson<{
    rows: { what: string; verdict: string; reason?: string; ours?: number }[];
    wrong: number;
  }>([...['bench', 'collectives', '--only', '8 B, 2 ranks', '--rounds', '1', '--round-ms', '20']]);
  assert.equal(wrong, 0);
  assert.equal(rows.length, 1);
  const [{ verdict, reason, ours = 0 }] = rows;
  assert.ok(verdict === 'not measured' ? /not installed: apt-get/.test(reason ?? '') : ours > 0);
});
