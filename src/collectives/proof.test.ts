import assert from 'node:assert/strict';
import { test } from 'node:test';
import { proveSchedule } from '../schedule/prover.js';
import { ALGORITHMS } from './registry.js';
import { sampleShapes } from './sample-shapes.js';

const SIZES = [...Array.from({ length: 33 }, (_, k) => k + 1), 64, 100];

for (const algorithm of Object.values(ALGORITHMS).flat()) {
  test(`${algorithm.collective}:${algorithm.name} is proved for 1..33, 64 and 100 ranks`, () => {
    let proved = 0;
    for (const size of SIZES) {
      for (const shape of sampleShapes(algorithm, size)) {
        const proof = proveSchedule(algorithm.schedule(shape));
        const { topology: _, ...plain } = shape;
        assert.deepEqual(proof.flaws, [], `${JSON.stringify(plain)} hosts ${shape.topology?.hosts}`);
        proved++;
      }
    }
    assert.ok(proved >= 7, `only ${proved} shapes were tried`);
  });
}
