import assert from 'node:assert/strict';
import { test } from 'node:test';
import { windowOf } from '../schedule/contract.js';
import { allocateMemory, interpret } from '../schedule/interpreter.js';
import { fillMemory, findMismatch } from '../schedule/reference.js';
import type { Schedule } from '../schedule/schedule.js';
import { countsSplit, evenSplit, windowLength } from '../schedule/split.js';
import { walkSchedule } from '../schedule/walk.js';
import { ALGORITHMS, findAlgorithm } from './registry.js';
import { sampleShapes } from './sample-shapes.js';

const SEED = Number(process.env['VERBENA_SEED'] ?? 20240607);

/** xorshift32: picks 0 .. n - 1. */
function chooser(seed: number): (n: number) => number {
  let state = seed | 0 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

/** Elements to try: none, fewer than ranks, one more than even, a prime. All-to-all and shards need equal blocks. */
function elementCounts(schedule: Schedule): number[] {
  const { chunks } = schedule;
  if (schedule.collective === 'all-to-all' || schedule.collective === 'sharded-allreduce') return [0, chunks, 3 * chunks];
  return [...new Set([0, chunks - 1, 37])];
}

for (const [collective, algorithms] of Object.entries(ALGORITHMS)) {
  test(`${collective}: every algorithm gives the closed-form result for uneven and empty chunks in any order of lanes (seed ${SEED})`, () => {
    for (const algorithm of algorithms) {
      for (const size of [1, 2, 3, 4, 5, 6, 8, 11]) {
        for (const shape of sampleShapes(algorithm, size)) {
          const schedule = algorithm.schedule(shape);
          for (const elements of elementCounts(schedule)) {
            for (const sends of ['eager', 'rendezvous'] as const) {
              const memory = allocateMemory(schedule, elements);
              fillMemory(schedule, memory);
              interpret(schedule, memory, { sends, choose: chooser(SEED + size + elements) });
              assert.equal(
                findMismatch(schedule, memory),
                undefined,
                `${collective}:${algorithm.name} p=${size} n=${elements} ${sends}`,
              );
            }
          }
        }
      }
    }
  });
}

test('the counters of a run equal those of the walked schedule', () => {
  for (const algorithm of Object.values(ALGORITHMS).flat()) {
    for (const size of [2, 5, 8]) {
      const [shape] = sampleShapes(algorithm, size);
      if (shape === undefined) continue;
      const schedule = algorithm.schedule(shape);
      const elements = 3 * schedule.chunks;
      const memory = allocateMemory(schedule, elements);
      fillMemory(schedule, memory);
      const counters = interpret(schedule, memory);
      const walk = walkSchedule(schedule, evenSplit(elements, schedule.chunks), { everyStep: true });
      const most = (pick: (c: (typeof counters)[number]) => number): number => Math.max(...counters.map(pick));
      const name = `${algorithm.collective}:${algorithm.name} p=${size}`;
      assert.equal(
        most((c) => c.elementsSent),
        walk.busiest.sent,
        name,
      );
      assert.equal(
        most((c) => c.elementsReceived),
        walk.busiest.received,
        name,
      );
      assert.equal(
        most((c) => c.elementsReduced),
        walk.busiest.reduced,
        name,
      );
      assert.equal(
        most((c) => c.elementsAccessed),
        walk.busiest.accessed,
        name,
      );
      assert.equal(
        most((c) => c.messagesSent),
        walk.busiest.messagesSent,
        name,
      );
      assert.equal(
        most((c) => c.messagesReceived),
        walk.busiest.messagesReceived,
        name,
      );
    }
  }
});

test('v-forms: the same schedules run over any counts, empty ones too', () => {
  const size = 6;
  const counts = [3, 0, 5, 1, 0, 2];
  const split = countsSplit(counts);
  for (const name of [
    'all-gather:ring',
    'all-gather:bruck',
    'all-gather:neighbour-exchange',
    'reduce-scatter:ring',
    'reduce-scatter:recursive-halving',
    'reduce-scatter:pairwise',
    'gather:linear',
    'gather:binomial',
    'gather:fan-in',
    'scatter:linear',
    'scatter:binomial',
    'scatter:fan-out',
  ] as const) {
    const [collective, algorithm] = name.split(':') as [keyof typeof ALGORITHMS, string];
    for (const root of [0, 4]) {
      const schedule = findAlgorithm(collective, algorithm).schedule({ size, bytes: 0, root });
      const memory = Array.from({ length: size }, (_, node) => ({
        buffers: schedule.buffers.map((_, id) => new Float64Array(windowLength(split, windowOf(schedule, id, node)))),
        splits: schedule.buffers.map(() => split),
      }));
      fillMemory(schedule, memory);
      interpret(schedule, memory);
      assert.equal(findMismatch(schedule, memory), undefined, `${name} root ${root}`);
    }
  }
});

test('all-to-all with counts of its own for every pair', () => {
  const size = 5;
  const count = (from: number, to: number): number => (from * 3 + to * 5) % 4;
  for (const name of ['pairwise', 'linear']) {
    const schedule = findAlgorithm('all-to-all', name).schedule({ size, bytes: 0 });
    const memory = Array.from({ length: size }, (_, rank) => {
      const splits = [
        countsSplit(Array.from({ length: size }, (_, to) => count(rank, to))),
        countsSplit(Array.from({ length: size }, (_, from) => count(from, rank))),
      ];
      return { buffers: splits.map((s) => new Float64Array(s.elements)), splits };
    });
    fillMemory(schedule, memory);
    interpret(schedule, memory);
    assert.equal(findMismatch(schedule, memory), undefined, name);
  }
});

test('avg scales each element once, at the reduction that completes it', () => {
  for (const algorithm of ALGORITHMS.allreduce) {
    for (const size of [2, 3, 4, 6, 7]) {
      for (const shape of sampleShapes(algorithm, size)) {
        const schedule = algorithm.schedule(shape);
        const memory = allocateMemory(schedule, 29);
        for (let rank = 0; rank < size; rank++) memory[rank].buffers[0].fill(rank);
        interpret(schedule, memory, { finish: (sum) => sum / size });
        for (let rank = 0; rank < size; rank++)
          assert.ok(
            memory[rank].buffers[0].every((x) => x === (size - 1) / 2),
            `${algorithm.name} p=${size}`,
          );
      }
    }
  }
});
