import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATA } from './contract.js';
import { receive, receiveReduce, send } from './instruction.js';
import { allocateMemory, interpret } from './interpreter.js';
import { defineSchedule, type Instruction, type Schedule } from './schedule.js';
import { countsSplit } from './split.js';

function twoRanks(programs: readonly Instruction[][], chunks = 1): Schedule {
  return defineSchedule({
    collective: 'reduce',
    algorithm: 'test',
    size: 2,
    chunks,
    buffers: [DATA],
    lanes: [{ name: 'only', reach: 'any' }],
    steps: 1,
    program: (rank) => programs[rank],
  });
}

test('numbers move, are combined with the given operation and finished where marked; traffic is counted', () => {
  const schedule = twoRanks([
    [receiveReduce({ lane: 0, step: 0, from: 1, first: 0, finish: true })],
    [send({ lane: 0, step: 0, to: 0, first: 0 })],
  ]);
  const memory = allocateMemory(schedule, 3, (n) => new Int32Array(n));
  memory[0].buffers[0].set([5, 6, 7]);
  memory[1].buffers[0].set([1, 9, 2]);
  const [root, leaf] = interpret(schedule, memory, { combine: Math.max, finish: (x) => 10 * x });
  assert.deepEqual([...memory[0].buffers[0]], [50, 90, 70]);
  assert.equal(leaf.elementsSent, 3);
  assert.equal(root.elementsReceived, 3);
  assert.equal(root.elementsReduced, 3);
});

test('a range that wraps moves as two pieces', () => {
  const schedule = twoRanks(
    [[receive({ lane: 0, step: 0, from: 1, first: 2, count: 2 })], [send({ lane: 0, step: 0, to: 0, first: 2, count: 2 })]],
    3,
  );
  const memory = allocateMemory(schedule, 5);
  memory[1].buffers[0].set([1, 2, 3, 4, 5]);
  interpret(schedule, memory);
  assert.deepEqual([...memory[0].buffers[0]], [1, 2, 0, 0, 5]);
});

test('standing still, leftovers and unequal lengths are errors', () => {
  assert.throws(
    () => interpret(twoRanks([[receive({ lane: 0, step: 0, from: 1, first: 0 })], []]), allocateMemory(twoRanks([[], []]), 1)),
    /stands still/,
  );
  const left = twoRanks([[], [send({ lane: 0, step: 0, to: 0, first: 0 })]]);
  assert.throws(() => interpret(left, allocateMemory(left, 1), { sends: 'eager' }), /leaves/);
  const uneven = twoRanks([[receive({ lane: 0, step: 0, from: 1, first: 0 })], [send({ lane: 0, step: 0, to: 0, first: 0 })]]);
  const memory = [3, 4].map((n) => ({ buffers: [new Float64Array(n)], splits: [countsSplit([n])] }));
  assert.throws(() => interpret(uneven, memory), /receive of 4 elements into 3/);
});
