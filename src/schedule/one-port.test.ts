import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATA } from './contract.js';
import { after, receive, receiveReduce, send } from './instruction.js';
import { onePortTime } from './one-port.js';
import { defineSchedule, type Instruction } from './schedule.js';
import { evenSplit } from './split.js';

const LANES = [
  { name: 'out', reach: 'any' },
  { name: 'in', reach: 'any' },
] as const;
const MODEL = { network: { alpha: 10, beta: 2 }, gamma: 0.5 };

function time(size: number, programs: readonly Instruction[][], elements: number): number {
  const schedule = defineSchedule({
    collective: 'reduce',
    algorithm: 'test',
    size,
    chunks: 1,
    buffers: [DATA],
    lanes: LANES,
    steps: 9,
    program: (rank) => programs[rank],
  });
  return onePortTime(schedule, evenSplit(elements, 1), MODEL);
}

test('one message takes alpha + beta n, and gamma n when it is combined', () => {
  assert.equal(
    time(2, [[send({ lane: 0, step: 0, to: 1, first: 0 })], [receive({ lane: 1, step: 0, from: 0, first: 0 })]], 100),
    210,
  );
  assert.equal(
    time(2, [[send({ lane: 0, step: 0, to: 1, first: 0 })], [receiveReduce({ lane: 1, step: 0, from: 0, first: 0 })]], 100),
    260,
  );
});

test('an exchange runs both ways at once', () => {
  const exchange = (peer: number): Instruction[] => [
    send({ lane: 0, step: 0, to: peer, first: 0 }),
    receive({ lane: 1, step: 0, from: peer, first: 0 }),
  ];
  assert.equal(time(2, [exchange(1), exchange(0)], 100), 210);
});

test('two messages into one port take turns, combining one before the next is asked for', () => {
  const root = [1, 2].map((from) => receiveReduce({ lane: 1, step: from, from, first: 0 }));
  const leaf = (step: number): Instruction[] => [send({ lane: 0, step, to: 0, first: 0 })];
  assert.equal(time(3, [root, leaf(1), leaf(2)], 100), 520);
});

test('what waits in a circle is an error, not a hang', () => {
  const circle = [after({ lane: 0, step: 0, on: 1, count: 1 }), send({ lane: 0, step: 0, to: 1, first: 0 })];
  assert.throws(() => time(2, [circle, []], 1), /stands still at node 0/);
});
