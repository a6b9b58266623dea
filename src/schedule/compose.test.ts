import assert from 'node:assert/strict';
import { test } from 'node:test';
import { embed, relabel, staged } from './compose.js';
import { DATA } from './contract.js';
import { receive, send } from './instruction.js';
import { defineSchedule, type Instruction, type Schedule } from './schedule.js';

const LANES = [{ name: 'only', reach: 'any' }] as const;

/** Rank 0 sends its chunk to rank 1. */
function handOver(collective: 'broadcast' | 'all-gather' = 'broadcast', count = 1): Schedule {
  return defineSchedule({
    collective,
    algorithm: 'hand-over',
    size: 2,
    chunks: 2,
    buffers: [DATA],
    lanes: LANES,
    steps: 1,
    program: (rank) => [
      rank === 0 ? send({ lane: 0, step: 0, to: 1, first: 0, count }) : receive({ lane: 0, step: 0, from: 0, first: 0, count }),
    ],
  });
}

const brief = (instructions: Iterable<Instruction>): string[] =>
  [...instructions].map(
    (i) => `${i.step} l${i.lane} ${i.op} ${i.peer} ${i.op === 'after' ? i.count : `${i.first}+${i.count} ch${i.channel}`}`,
  );

test('embedding translates ranks and chunks', () => {
  assert.deepEqual(brief(embed(handOver(), 0, { members: [7, 3], base: 4, width: 3 })), ['0 l0 send 3 4+3 ch0']);
});

test('a stage waits for the stages before it on its own rank, with lanes and channels of its own', () => {
  const stage = { lanes: LANES, steps: 1, instructions: (rank: number) => embed(handOver(), rank, { members: [0, 1] }) };
  const { lanes, steps, program } = staged([stage, stage]);
  assert.equal(lanes.length, 2);
  assert.equal(steps, 2);
  assert.deepEqual(brief(program(0)), ['0 l0 send 1 0+1 ch0', '1 l1 after 0 1', '1 l1 send 1 0+1 ch8']);
});

test('segments overlap: a stage waits for its own segment only', () => {
  const stage = {
    lanes: LANES,
    steps: 1,
    instructions: (rank: number, segment: number) => embed(handOver(), rank, { members: [0, 1], base: segment }),
  };
  const { program, steps } = staged([stage, stage], 2);
  assert.equal(steps, 3);
  assert.deepEqual(brief(program(1)), [
    '0 l0 receive 0 0+1 ch0',
    '1 l1 after 0 1',
    '1 l1 receive 0 0+1 ch8',
    '1 l0 receive 0 1+1 ch0',
    '2 l1 after 0 2',
    '2 l1 receive 0 1+1 ch8',
  ]);
});

test('relabelling renames ranks, and chunks where they belong to ranks', () => {
  assert.deepEqual(brief(relabel(handOver(), [1, 0]).program(1)), ['0 l0 send 0 0+1 ch0']);
  assert.deepEqual(brief(relabel(handOver('all-gather'), [1, 0]).program(1)), ['0 l0 send 0 1+1 ch0']);
  assert.throws(() => [...relabel(handOver('all-gather', 2), [1, 0]).program(1)], /cannot be reordered/);
  assert.throws(() => relabel(handOver(), [0, 0]), /permutation/);
});
