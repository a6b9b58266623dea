import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Random } from '../../nn/index.js';
import { codecOf } from './codec.js';
import { COMPRESSIONS, nameOf, parseCompression } from './compression.js';
import { factorShape } from './power-sgd-scheme.js';

describe('compressions', () => {
  it('names and words say the same', () => {
    for (const one of COMPRESSIONS) {
      assert.deepEqual(parseCompression(nameOf(one)), one);
      assert.deepEqual(parseCompression(one.kind), one);
    }
    assert.deepEqual(parseCompression('top-k:0.5'), { kind: 'top-k', ratio: 0.5 });
    assert.deepEqual(parseCompression('threshold:1e-3'), { kind: 'threshold', limit: 0.001 });
  });

  for (const wrong of [
    'zip',
    'fp16:2',
    'top-k:0',
    'top-k:1.5',
    'top-k:',
    'top-k:x',
    'threshold:-1',
    'power-sgd:0',
    'power-sgd:1.5',
    'int8:1:2',
  ]) {
    it(`'${wrong}' is refused`, () => assert.throws(() => parseCompression(wrong), RangeError));
  }

  it('an encoding and what it left out add up to what was encoded', () => {
    for (const compression of COMPRESSIONS) {
      const codec = codecOf(compression);
      if (codec === undefined) continue;
      for (const n of [0, 1, 5, 64, 1003]) {
        const random = new Random(n + 1);
        const x = Float32Array.from({ length: n }, () => 0.01 * random.normal());
        const was = x.slice();
        const room = codec.room(n);
        assert.equal(room % 8, 0);
        const bytes = new Uint8Array(room);
        assert.ok(codec.encode(x, bytes) <= room);
        const said = new Float32Array(n).fill(7);
        codec.decode(bytes, said, false);
        const twice = said.slice();
        codec.decode(bytes, twice, true);
        for (let i = 0; i < n; i++) {
          assert.ok(
            Math.abs(said[i] + x[i] - was[i]) < 1e-8,
            `${compression.kind} of ${n}, ${i}: ${said[i]} + ${x[i]} is not ${was[i]}`,
          );
          assert.ok(Math.abs(twice[i] - 2 * said[i]) <= 1e-7 * Math.abs(said[i]), compression.kind);
        }
      }
    }
  });

  it('only matrices that get smaller are factored', () => {
    assert.equal(factorShape([100], 2), undefined);
    assert.equal(factorShape([4, 4], 2), undefined);
    assert.deepEqual(factorShape([32, 16, 5, 5], 4), { rows: 32, columns: 400, rank: 4 });
    assert.deepEqual(factorShape([1, 100], 4), undefined);
  });
});
