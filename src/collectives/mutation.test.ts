/**
 * Broken algorithms must be caught. Every instruction of one or two ranks of every algorithm is broken in every way below, and the prover has to find a
 * flaw. What it lets pass must be harmless: then the mutant still computes the right result in many random orders, and it is one
 * of the kinds that can be harmless at all (a wait that another wait implies, neighbours that may change places, ...).
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPost, isTake } from '../schedule/instruction.js';
import { allocateMemory, interpret } from '../schedule/interpreter.js';
import { proveSchedule } from '../schedule/prover.js';
import { fillMemory, findMismatch } from '../schedule/reference.js';
import type { Instruction, Schedule } from '../schedule/schedule.js';
import type { Algorithm } from './algorithm.js';
import { ALGORITHMS } from './registry.js';
import { sampleShapes } from './sample-shapes.js';

type Mutation = (program: Instruction[], at: number, schedule: Schedule) => Instruction[] | undefined;

const isMessage = (i: Instruction): boolean => i.op !== 'after' && i.op !== 'copy' && i.op !== 'reduce' && i.op !== 'multicast';
const moves = (i: Instruction): boolean => i.op !== 'after' && i.op !== 'signal' && i.op !== 'wait';
const replaced = (program: Instruction[], at: number, change: Partial<Instruction>): Instruction[] =>
  program.with(at, { ...program[at], ...change });

const MUTATIONS: Readonly<Record<string, Mutation>> = {
  'dropped operation': (program, at) => (program[at].op === 'after' ? undefined : program.toSpliced(at, 1)),
  'removed wait': (program, at) => (program[at].op === 'after' ? program.toSpliced(at, 1) : undefined),
  'wait for too little': (program, at) =>
    program[at].op === 'after' ? replaced(program, at, { count: program[at].count - 1 }) : undefined,
  'wait for too much': (program, at) =>
    program[at].op === 'after' ? replaced(program, at, { count: program[at].count + 1 }) : undefined,
  'doubled operation': (program, at) => (program[at].op === 'after' ? undefined : program.toSpliced(at, 0, program[at])),
  'wrong chunk': (program, at, { chunks }) => {
    if (!moves(program[at]) || chunks === 1) return undefined;
    return replaced(program, at, { first: (program[at].first + 1) % chunks });
  },
  'wrong source chunk': (program, at, { chunks }) => {
    const { op, otherFirst } = program[at];
    if (!['copy', 'reduce', 'read', 'readReduce', 'write'].includes(op) || chunks === 1) return undefined;
    return replaced(program, at, { otherFirst: (otherFirst + 1) % chunks });
  },
  'one chunk too few': (program, at) =>
    moves(program[at]) && program[at].count > 1 ? replaced(program, at, { count: program[at].count - 1 }) : undefined,
  'wrong peer': (program, at, { nodes }) => {
    if (!isMessage(program[at]) || nodes < 3) return undefined;
    return replaced(program, at, { peer: (program[at].peer + 1) % nodes });
  },
  'wrong channel': (program, at) =>
    isPost(program[at].op) || isTake(program[at].op) ? replaced(program, at, { channel: program[at].channel + 7 }) : undefined,
  'reduce instead of replace': (program, at) => {
    const swap = { receive: 'receiveReduce', copy: 'reduce', read: 'readReduce' } as const;
    const op = program[at].op;
    return op === 'receive' || op === 'copy' || op === 'read' ? replaced(program, at, { op: swap[op] }) : undefined;
  },
  'replace instead of reduce': (program, at) => {
    const swap = { receiveReduce: 'receive', reduce: 'copy', readReduce: 'read' } as const;
    const op = program[at].op;
    return op === 'receiveReduce' || op === 'reduce' || op === 'readReduce'
      ? replaced(program, at, { op: swap[op], finish: false })
      : undefined;
  },
  'finish flipped': (program, at) => {
    const reduces = ['receiveReduce', 'reduce', 'readReduce'].includes(program[at].op);
    return reduces ? replaced(program, at, { finish: !program[at].finish }) : undefined;
  },
  'swapped order': (program, at) => {
    const next = program.findIndex((i, k) => k > at && i.lane === program[at].lane);
    if (next === -1) return undefined;
    const [a, b] = [program[at], program[next]];
    return program.with(at, { ...b, step: a.step }).with(next, { ...a, step: b.step });
  },
  'wrong buffer': (program, at, { buffers }) => {
    if (!moves(program[at]) || buffers.length < 2) return undefined;
    return replaced(program, at, { buffer: (program[at].buffer + 1) % buffers.length });
  },
};

/** Kinds of which some mutants may be as good as the original. */
const CAN_BE_HARMLESS = new Set([
  'removed wait',
  'wait for too little',
  'wait for too much',
  'swapped order',
  'doubled operation',
  'dropped operation',
]);

/** In the transposition of the hierarchical all-to-all a block whose place does not change is there already: its copy may go elsewhere. */
function keepsItsPlace({ collective, name }: Algorithm, kind: string, i: Instruction): boolean {
  const transposes = collective === 'all-to-all' && name === 'hierarchical' && i.op === 'copy' && i.first === i.otherFirst;
  return transposes && (kind === 'wrong chunk' || kind === 'wrong buffer');
}

function mutant(schedule: Schedule, rank: number, program: Instruction[]): Schedule {
  return {
    ...schedule,
    program: (node) => (node === rank ? program : schedule.program(node)),
    at: (node, step) => (node === rank ? program.filter((i) => i.step === step) : schedule.at(node, step)),
  };
}

function chooser(seed: number): (n: number) => number {
  let state = seed * 2654435761 || 1;
  return (n) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % n;
  };
}

/** Runs it in several orders; true when it never goes wrong. */
function seemsRight(schedule: Schedule): boolean {
  for (let seed = 1; seed <= 4; seed++) {
    const memory = allocateMemory(schedule, 3 * schedule.chunks);
    fillMemory(schedule, memory);
    interpret(schedule, memory, { sends: seed % 2 === 0 ? 'eager' : 'rendezvous', choose: chooser(seed) });
    if (findMismatch(schedule, memory) !== undefined) return false;
  }
  return true;
}

test('every way of breaking an algorithm is caught, or harmless', () => {
  const unexpected: string[] = [];
  const tally = new Map<string, { made: number; survived: number }>();
  for (const algorithm of Object.values(ALGORITHMS).flat()) {
    for (const size of [4, 5]) {
      const shapes = sampleShapes(algorithm, size);
      const shape = shapes.filter(({ topology }) => topology === shapes[0].topology).at(-1);
      if (shape === undefined) continue;
      const schedule = algorithm.schedule(shape);
      for (const rank of size === 4 ? new Set([1, schedule.nodes - 1]) : [3]) {
        const program = [...schedule.program(rank)];
        if (size > 4 && program.length > 40) continue;
        for (const [kind, mutate] of Object.entries(MUTATIONS)) {
          const count = tally.get(kind) ?? { made: 0, survived: 0 };
          tally.set(kind, count);
          for (let at = 0; at < program.length; at++) {
            const broken = mutate(program, at, schedule);
            if (broken === undefined) continue;
            count.made++;
            const changed = mutant(schedule, rank, broken);
            if (!proveSchedule(changed, 1).ok) continue;
            count.survived++;
            const name = `${algorithm.collective}:${algorithm.name} p=${size}, ${kind} at ${at} of rank ${rank}: ${JSON.stringify(program[at])}`;
            if (!CAN_BE_HARMLESS.has(kind) && !keepsItsPlace(algorithm, kind, program[at])) unexpected.push(name);
            assert.ok(seemsRight(changed), `not caught, and gives wrong results: ${name}`);
          }
        }
      }
    }
  }
  assert.deepEqual(unexpected, []);
  for (const [kind, { made, survived }] of tally) {
    assert.ok(made > 0, `${kind} was never tried`);
    process.stdout.write(`# ${kind}: ${made} mutants, ${survived} harmless\n`);
  }
});
