import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PipelineName, pipelineProgram, simulatePipeline } from './pipeline.js';

/** tF = 1, tB = 2 in two halves. */
const TIMES = { forward: 1, backwardInput: 1, backwardWeight: 1 };
const STAGES = [1, 2, 3, 4, 8];

function near(actual: number, wanted: number, what: string): void {
  assert.ok(Math.abs(actual - wanted) < 1e-9, `${what}: ${actual}, expected ${wanted}`);
}

test('GPipe and 1F1B lose (p - 1)/m of the ideal time, (p - 1)/(m + p - 1) of the total', () => {
  for (const name of ['gpipe', '1f1b'] as const) {
    for (const stages of STAGES) {
      for (const microbatches of [1, 2, 5, 8, 16]) {
        const { total, ideal } = simulatePipeline(name, { stages, microbatches }, TIMES);
        near((total - ideal) / ideal, (stages - 1) / microbatches, `${name} p=${stages} m=${microbatches}`);
        near((total - ideal) / total, (stages - 1) / (microbatches + stages - 1), `${name} p=${stages} m=${microbatches}`);
      }
    }
  }
});

test('interleaving divides the bubble by the parts per stage', () => {
  for (const stages of STAGES) {
    for (const parts of [1, 2, 3, 4]) {
      for (const rounds of [1, 2, 4]) {
        const microbatches = rounds * stages;
        const { total, ideal } = simulatePipeline('interleaved', { stages, microbatches, parts }, TIMES);
        near((total - ideal) / ideal, (stages - 1) / (parts * microbatches), `p=${stages} v=${parts} m=${microbatches}`);
      }
    }
  }
});

test('activations in flight: GPipe m; 1F1B min(p - s, m); interleaved more on the first stage', () => {
  for (const stages of STAGES) {
    const microbatches = 2 * stages;
    assert.deepEqual(simulatePipeline('gpipe', { stages, microbatches }, TIMES).inFlight, new Array(stages).fill(microbatches));
    assert.deepEqual(
      simulatePipeline('1f1b', { stages, microbatches }, TIMES).inFlight,
      Array.from({ length: stages }, (_, s) => Math.min(stages - s, microbatches)),
    );
    const parts = 2;
    const [first] = simulatePipeline('interleaved', { stages, microbatches, parts }, TIMES).inFlight;
    near(first, stages * (1 + (stages - 1) / (stages * parts)), `interleaved p=${stages}`);
  }
  assert.equal(simulatePipeline('interleaved', { stages: 4, microbatches: 8, parts: 2 }, TIMES).inFlight[0], 5.5);
});

test('ZB-H1 loses (p - 1)(tF + tB - tW) and holds no more than p activations', () => {
  for (const stages of STAGES) {
    for (const microbatches of [stages, 2 * stages, 3 * stages + 1]) {
      const { total, ideal, inFlight } = simulatePipeline('zb-h1', { stages, microbatches }, TIMES);
      near(total - ideal, stages - 1, `p=${stages} m=${microbatches}`);
      assert.ok(Math.max(...inFlight) <= stages, `p=${stages} holds ${inFlight}`);
      const plain = simulatePipeline('1f1b', { stages, microbatches }, TIMES);
      near(plain.total - plain.ideal, 3 * (stages - 1), `1f1b p=${stages}`);
    }
  }
});

test('the loss of ZB-H1 holds for unequal times, as long as a weight gradient takes no longer than a forward pass', () => {
  for (const [forward, backwardInput, backwardWeight] of [
    [1, 1, 0.5],
    [1, 1.25, 0.75],
    [2, 2, 1],
    [1, 1.5, 1],
  ]) {
    for (const stages of [2, 4, 8]) {
      const { total, ideal } = simulatePipeline(
        'zb-h1',
        { stages, microbatches: 3 * stages },
        { forward, backwardInput, backwardWeight },
      );
      near(
        total - ideal,
        (stages - 1) * (forward + backwardInput - backwardWeight),
        `p=${stages} ${forward} ${backwardInput} ${backwardWeight}`,
      );
    }
  }
});

test('every microbatch goes once forward and once backward through every piece, and sends meet receives', () => {
  const cases: [PipelineName, number, number, number][] = [
    ['gpipe', 3, 5, 1],
    ['1f1b', 4, 3, 1],
    ['interleaved', 3, 6, 2],
    ['zb-h1', 4, 6, 1],
  ];
  for (const [name, stages, microbatches, parts] of cases) {
    const seen = new Map<string, number>();
    const sent: string[] = [];
    const taken: string[] = [];
    for (let stage = 0; stage < stages; stage++) {
      for (const { op, microbatch, part, peer } of pipelineProgram(name, { stages, microbatches, parts }, stage)) {
        if (op.startsWith('send')) sent.push(`${op.slice(4)} ${microbatch} ${stage}>${peer}`);
        else if (op.startsWith('receive')) taken.push(`${op.slice(7)} ${microbatch} ${peer}>${stage}`);
        else seen.set(`${op} ${microbatch} ${part} ${stage}`, (seen.get(`${op} ${microbatch} ${part} ${stage}`) ?? 0) + 1);
      }
    }
    assert.equal(seen.size, stages * parts * microbatches * (name === 'zb-h1' ? 3 : 2), name);
    assert.ok(
      [...seen.values()].every((times) => times === 1),
      name,
    );
    assert.deepEqual(sent.sort(), taken.sort(), name);
    assert.equal(sent.length, 2 * (stages * parts - 1) * microbatches, name);
  }
});

test('numbers that do not fit are refused with what to do', () => {
  assert.throws(() => [...pipelineProgram('interleaved', { stages: 4, microbatches: 6, parts: 2 }, 0)], /multiple of stages/);
  assert.throws(() => [...pipelineProgram('1f1b', { stages: 4, microbatches: 6, parts: 2 }, 0)], /use 'interleaved'/);
  assert.throws(() => [...pipelineProgram('gpipe', { stages: 2, microbatches: 2 }, 2)], /stage must be 0 \.\. 1/);
});
