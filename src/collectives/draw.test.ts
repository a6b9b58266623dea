import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawSchedule } from '../schedule/draw.js';
import { ALGORITHMS, findAlgorithm } from './registry.js';
import { sampleShapes } from './sample-shapes.js';

/** Every tag that opens closes, in order. */
function assertWellFormed(svg: string, name: string): void {
  const open: string[] = [];
  for (const [, closing, tag, own] of svg.matchAll(/<(\/?)([a-z]+)[^<>]*?(\/?)>/g)) {
    if (own === '/') continue;
    if (closing === '') open.push(tag);
    else assert.equal(open.pop(), tag, name);
  }
  assert.deepEqual(open, [], name);
  assert.doesNotMatch(svg, /NaN|undefined|Infinity/, name);
}

test('every algorithm draws to a well-formed picture', () => {
  for (const algorithm of Object.values(ALGORITHMS).flat()) {
    for (const size of [1, 2, 4, 5]) {
      const [shape] = sampleShapes(algorithm, size);
      if (shape === undefined) continue;
      const svg = drawSchedule(algorithm.schedule(shape), { subtitle: 'a < b & c' });
      assertWellFormed(svg, `${algorithm.collective}:${algorithm.name} p=${size}`);
      assert.match(svg, /a &lt; b &amp; c/);
    }
  }
});

test('a ring of four has an arrow per message, a plus per reduction, and a check mark per finished chunk', () => {
  const svg = drawSchedule(findAlgorithm('allreduce', 'ring').schedule({ size: 4, bytes: 0 }));
  assert.equal(svg.match(/ C/g)?.length, 24);
  assert.equal(svg.match(/<circle [^>]*r="6.5"/g)?.length, 12 + 1);
  // Finished chunks after steps 3, 4, 5, 6: 4, 8, 12, 16; and one in the legend.
  assert.equal(svg.match(/✓/g)?.length, 4 + 8 + 12 + 16 + 1);
});

test('a picture nobody could read is refused', () => {
  assert.throws(
    () => drawSchedule(findAlgorithm('allreduce', 'ring').schedule({ size: 64, bytes: 0 })),
    /at most 40 nodes and 64 steps/,
  );
});
