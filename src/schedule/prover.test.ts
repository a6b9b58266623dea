import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATA, SCRATCH } from './contract.js';
import { after, copy, read, receive, receiveReduce, reduce, send, signal, wait } from './instruction.js';
import { proveSchedule } from './prover.js';
import { type Collective, defineSchedule, type Instruction, type Schedule, type ScheduleDefinition } from './schedule.js';
import type { Flaw } from './well-formed.js';

const LANES = [
  { name: 'a', reach: 'any' },
  { name: 'b', reach: 'any' },
] as const;

/** Two ranks and the programs given. */
function pair(collective: Collective, programs: Instruction[][], more: Partial<ScheduleDefinition> = {}): Schedule {
  return defineSchedule({
    collective,
    algorithm: 'test',
    size: 2,
    chunks: 1,
    buffers: [DATA, SCRATCH],
    lanes: LANES,
    steps: 4,
    program: (rank) => programs[rank],
    ...more,
  });
}

function kinds(schedule: Schedule): Flaw['kind'][] {
  return [...new Set(proveSchedule(schedule).flaws.map(({ kind }) => kind))];
}

const SEND = (to: number): Instruction => send({ lane: 0, step: 0, to, first: 0 });
/** Both send, both receive beside, wait for their own send, and add. */
const exchange = (rank: number): Instruction[] => [
  SEND(1 - rank),
  receive({ lane: 1, step: 0, from: 1 - rank, buffer: 1, first: 0 }),
  after({ lane: 1, step: 0, on: 0, count: 1 }),
  reduce({ lane: 1, step: 0, rank, first: 0, otherBuffer: 1, finish: true }),
];

test('a correct exchange is proved', () => {
  assert.deepEqual(proveSchedule(pair('allreduce', [exchange(0), exchange(1)])).flaws, []);
});

test('without waiting for the send, the sum would overwrite what is in flight', () => {
  const hasty = (rank: number): Instruction[] => exchange(rank).filter(({ op }) => op !== 'after');
  assert.ok(kinds(pair('allreduce', [hasty(0), exchange(1)])).includes('race'));
});

test('two ranks that both send before they receive stand still when sends wait', () => {
  const program = (rank: number): Instruction[] => [
    SEND(1 - rank),
    receiveReduce({ lane: 0, step: 0, from: 1 - rank, first: 0, finish: true }),
  ];
  const proof = proveSchedule(pair('allreduce', [program(0), program(1)]));
  assert.ok(proof.flaws.some(({ kind, text }) => kind === 'stuck' && /node 0 step 0 lane 0 send/.test(text)));
});

test('lanes that wait for each other stand still', () => {
  const circle = [
    after({ lane: 0, step: 0, on: 1, count: 1 }),
    copy({ lane: 0, step: 0, rank: 0, buffer: 1, first: 0 }),
    after({ lane: 1, step: 0, on: 0, count: 1 }),
    copy({ lane: 1, step: 0, rank: 0, buffer: 1, first: 0 }),
  ];
  assert.deepEqual(kinds(pair('allreduce', [circle, []])), ['stuck']);
});

test('a send nobody takes is found', () => {
  const proof = proveSchedule(pair('broadcast', [[signal({ lane: 0, step: 0, to: 1 })], []]));
  assert.deepEqual(
    proof.flaws.map(({ kind }) => kind),
    ['unmatched'],
  );
});

test('a contribution added twice is found', () => {
  const twice = (rank: number): Instruction[] => [
    ...exchange(rank).map((i) => ({ ...i, finish: false })),
    reduce({ lane: 1, step: 1, rank, first: 0, otherBuffer: 1, finish: true }),
  ];
  const proof = proveSchedule(pair('allreduce', [twice(0), exchange(1)]));
  assert.match(proof.flaws[0].text, /adds contributions twice: \{1\}/);
});

test('scratch read before anybody wrote it is found', () => {
  const program = [reduce({ lane: 0, step: 0, rank: 0, first: 0, otherBuffer: 1 })];
  assert.match(proveSchedule(pair('reduce', [program, []])).flaws[0].text, /which nobody wrote/);
});

test('a finish before all contributions are in, or none at all, is found', () => {
  const never = (rank: number): Instruction[] => exchange(rank).map((i) => ({ ...i, finish: false }));
  assert.deepEqual(kinds(pair('allreduce', [never(0), exchange(1)])), ['result']);
  const early = [receiveReduce({ lane: 1, step: 0, from: 1, first: 0, finish: true })];
  const three = pair('reduce', [early, [SEND(0)], []], { size: 3 });
  assert.match(proveSchedule(three).flaws[0].text, /finishes without \{2\}/);
});

test('reading a peer without a signal is a race; with one, and one back, it is not', () => {
  const reader = [read({ lane: 0, step: 0, from: 0, first: 0 })];
  const alone = pair('broadcast', [
    [copy({ lane: 0, step: 0, rank: 0, buffer: 1, first: 0 }), copy({ lane: 0, step: 0, rank: 0, first: 0, otherBuffer: 1 })],
    reader,
  ]);
  assert.ok(kinds(alone).includes('race'));
  const owner = [signal({ lane: 0, step: 0, to: 1 }), wait({ lane: 0, step: 1, from: 1 })];
  const polite = [
    wait({ lane: 0, step: 0, from: 0 }),
    ...reader.map((i) => ({ ...i, step: 0 })),
    signal({ lane: 0, step: 1, to: 0 }),
  ];
  assert.deepEqual(proveSchedule(pair('broadcast', [owner, polite])).flaws, []);
  const leaves = pair('broadcast', [owner.slice(0, 1), polite.slice(0, 2)]);
  assert.match(proveSchedule(leaves).flaws[0].text, /rank 0 may leave while 1 is still at its chunk 0/);
});

test('a barrier that somebody can pass too early is no barrier', () => {
  const oneWay = pair('barrier', [[signal({ lane: 0, step: 0, to: 1 })], [wait({ lane: 0, step: 0, from: 0 })]], { buffers: [] });
  assert.deepEqual(
    proveSchedule(oneWay).flaws.map(({ text }) => text),
    ['rank 0 may leave before rank 1 has entered'],
  );
});

test('malformed programs are named, not run', () => {
  const cases: [Instruction, RegExp][] = [
    [send({ lane: 2, step: 0, to: 1, first: 0 }), /no lane 2/],
    [send({ lane: 0, step: 9, to: 1, first: 0 }), /step 9/],
    [send({ lane: 0, step: 0, to: 0, first: 0 }), /peer 0 is impossible/],
    [send({ lane: 0, step: 0, to: 5, first: 0 }), /peer 5 is impossible/],
    [send({ lane: 0, step: 0, to: 1, first: 3 }), /outside data/],
    [send({ lane: 0, step: 0, to: 1, first: 0, buffer: 4 }), /no buffer 4/],
    [send({ lane: 0, step: 0, to: 1, first: 0, count: 2 }), /count 2/],
    [after({ lane: 0, step: 0, on: 0, count: 1 }), /no other lane/],
  ];
  for (const [instruction, words] of cases) {
    const [flaw] = proveSchedule(pair('allreduce', [[instruction], []])).flaws;
    assert.equal(flaw.kind, 'shape');
    assert.match(flaw.text, words);
  }
  const twoLanes = [SEND(1), send({ lane: 1, step: 0, to: 1, first: 0 })];
  assert.match(proveSchedule(pair('allreduce', [twoLanes, []])).flaws[0].text, /share one stream/);
});
