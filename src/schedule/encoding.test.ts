import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeLane, ENCODING_MAGIC, encodeProgram, FINISH, HEADER_WORDS, OPCODES, RECORD_WORDS } from './encoding.js';
import {
  after,
  copy,
  multicast,
  read,
  readReduce,
  receive,
  receiveReduce,
  reduce,
  send,
  signal,
  wait,
  write,
} from './instruction.js';
import { defineSchedule, type Instruction } from './schedule.js';

/** One of each operation, in two lanes. */
const PROGRAM: Instruction[] = [
  send({ lane: 0, step: 0, to: 3, first: 5, count: 2, channel: 9 }),
  receive({ lane: 1, step: 0, from: 2, buffer: 1, first: 4 }),
  receiveReduce({ lane: 1, step: 1, from: 2, first: 70000, finish: true }),
  copy({ lane: 0, step: 1, rank: 1, buffer: 2, first: 1, otherBuffer: 1, otherFirst: 6 }),
  reduce({ lane: 0, step: 1, rank: 1, first: 2, otherBuffer: 1 }),
  read({ lane: 0, step: 2, from: 0, first: 3 }),
  readReduce({ lane: 0, step: 2, from: 0, first: 3, otherBuffer: 2, finish: true }),
  write({ lane: 0, step: 3, to: 2, buffer: 255, first: 1, otherFirst: 0 }),
  signal({ lane: 0, step: 3, to: 2 }),
  wait({ lane: 1, step: 3, from: 2 }),
  after({ lane: 1, step: 3, on: 0, count: 4 }),
  multicast({ lane: 1, step: 4, first: 0, channel: 255 }),
];

const SCHEDULE = defineSchedule({
  collective: 'allreduce',
  algorithm: 'one-of-each',
  size: 4,
  chunks: 7,
  buffers: [],
  lanes: [
    { name: 'a', reach: 'any' },
    { name: 'b', reach: 'any' },
  ],
  steps: 5,
  program: (rank) => (rank === 1 ? PROGRAM : []),
});

test('a program survives encoding and decoding, lane by lane', () => {
  const words = encodeProgram(SCHEDULE, 1);
  assert.equal(words.length, HEADER_WORDS + 2 * 2 + PROGRAM.length * RECORD_WORDS);
  assert.deepEqual([...words.subarray(0, HEADER_WORDS)], [ENCODING_MAGIC, 2, 7, 4]);
  for (const lane of [0, 1]) {
    assert.deepEqual(
      [...decodeLane(words, lane)],
      PROGRAM.filter((i) => i.lane === lane),
    );
  }
});

test('the record layout is the one drawn in the file, which C relies on', () => {
  const words = encodeProgram(SCHEDULE, 1);
  const first = words[HEADER_WORDS];
  assert.equal(first, HEADER_WORDS + 4);
  assert.deepEqual([...words.subarray(first, first + RECORD_WORDS)], [OPCODES.send, 0, 3, 9, 0, 5, 2, 0]);
  const finishing = words[HEADER_WORDS + 2] + RECORD_WORDS;
  assert.equal(words[finishing], OPCODES.receiveReduce | FINISH);
  assert.deepEqual(Object.values(OPCODES), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
});

test('a rank with nothing to do has empty lanes', () => {
  const words = encodeProgram(SCHEDULE, 0);
  assert.equal(words.length, HEADER_WORDS + 4);
  assert.deepEqual([...decodeLane(words, 1)], []);
});

test('what does not fit, and what is not a program, is refused', () => {
  const wide = { ...SCHEDULE, program: () => [send({ lane: 0, step: 0, to: 1, first: 0, channel: 256 })] };
  assert.throws(() => encodeProgram(wide, 0), /go to 255/);
  assert.throws(() => [...decodeLane(new Int32Array(8), 0)], /not an encoded program/);
});
