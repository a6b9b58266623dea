/** What every schedule must keep to beyond being correct, because executors and simulators rely on it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeLane, encodeProgram } from '../schedule/encoding.js';
import type { Instruction, Schedule } from '../schedule/schedule.js';
import { distance } from '../schedule/topology.js';
import type { Shape } from './algorithm.js';
import { ALGORITHMS } from './registry.js';
import { sampleShapes } from './sample-shapes.js';

function* everySchedule(sizes: readonly number[]): Generator<{ name: string; shape: Shape; schedule: Schedule }> {
  for (const algorithm of Object.values(ALGORITHMS).flat()) {
    for (const size of sizes) {
      for (const shape of sampleShapes(algorithm, size)) {
        yield { name: `${algorithm.collective}:${algorithm.name} p=${size}`, shape, schedule: algorithm.schedule(shape) };
      }
    }
  }
}

test('at(rank, step) gives exactly the instructions of the program with that label, in order', () => {
  for (const { name, schedule } of everySchedule([1, 5, 6])) {
    for (let node = 0; node < schedule.nodes; node++) {
      const program = [...schedule.program(node)];
      let seen = 0;
      for (let step = 0; step < schedule.steps; step++) {
        const at = [...schedule.at(node, step)];
        seen += at.length;
        assert.deepEqual(
          at,
          program.filter((i) => i.step === step),
          `${name} node ${node} step ${step}`,
        );
      }
      assert.equal(seen, program.length, name);
    }
  }
});

test('steps that are called alike have the same traffic', () => {
  for (const { name, schedule } of everySchedule([5, 6])) {
    const patterns = new Map<number, string>();
    for (let step = 0; step < schedule.steps; step++) {
      const pairs: string[] = [];
      for (let node = 0; node < schedule.nodes; node++) {
        for (const { op, peer, count } of schedule.at(node, step)) if (op === 'send') pairs.push(`${node}>${peer}x${count}`);
      }
      const pattern = pairs.sort().join(' ');
      const known = patterns.get(schedule.alike(step)) ?? pattern;
      patterns.set(schedule.alike(step), known);
      assert.equal(pattern, known, `${name} step ${step}`);
    }
  }
});

test('every program survives the compact form', () => {
  for (const { name, schedule } of everySchedule([4])) {
    for (let node = 0; node < schedule.nodes; node++) {
      const words = encodeProgram(schedule, node);
      const lanes: Instruction[][] = schedule.lanes.map(() => []);
      for (const i of schedule.program(node)) lanes[i.lane].push(i);
      for (const [lane, instructions] of lanes.entries()) assert.deepEqual([...decodeLane(words, lane)], instructions, name);
    }
  }
});

test('lanes keep to their reach, so each can be bound to its own executor', () => {
  for (const { name, shape, schedule } of everySchedule([1, 2, 4, 6])) {
    for (let node = 0; node < schedule.size; node++) {
      for (const i of schedule.program(node)) {
        const { reach } = schedule.lanes[i.lane];
        const accesses = i.op === 'read' || i.op === 'readReduce' || i.op === 'write';
        assert.ok(!accesses || reach === 'memory', `${name}: ${i.op} in a lane of reach ${reach}`);
        if (i.op === 'after' || i.peer === node || i.peer >= schedule.size || shape.topology === undefined) continue;
        const far = distance(shape.topology, node, i.peer) === 3;
        assert.ok(reach !== 'host' || !far, `${name}: host lane from ${node} to ${i.peer}`);
        assert.ok(reach !== 'network' || far, `${name}: network lane from ${node} to ${i.peer}`);
      }
    }
  }
});
