import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { flatten, linear, Model } from '../../nn/index.js';
import { exportWeights, importWeights } from './restore.js';
import { decodeSafetensors, encodeSafetensors } from './safetensors.js';

/** A file as the specification describes it, put together by hand. */
function byHand(header: string, data: readonly number[]): Uint8Array {
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeUInt32LE(text.length, 0);
  return Uint8Array.from([...length, ...text, ...data]);
}

test('a file is what the format says, byte by byte', () => {
  const file = encodeSafetensors(
    [
      { name: 'a', shape: [2], data: Float32Array.of(1, -2) },
      { name: 'b', shape: [], data: Int32Array.of(7) },
      { name: 'c', shape: [0, 3], data: new Uint8Array(0) },
    ],
    { by: 'hand' },
  );
  const header =
    '{"__metadata__":{"by":"hand"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},' +
    '"b":{"dtype":"I32","shape":[],"data_offsets":[8,12]},"c":{"dtype":"U8","shape":[0,3],"data_offsets":[12,12]}}';
  const padded = header.padEnd(8 * Math.ceil(header.length / 8), ' ');
  assert.deepEqual(file, byHand(padded, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 7, 0, 0, 0]));
  const { tensors, metadata } = decodeSafetensors(file);
  assert.deepEqual(metadata, { by: 'hand' });
  assert.deepEqual(tensors.get('a'), { name: 'a', shape: [2], data: Float32Array.of(1, -2) });
  assert.deepEqual([...tensors.keys()], ['a', 'b', 'c']);
});

test('what the format forbids is refused', () => {
  const one = '"shape":[1],"dtype":"F32"';
  const cases: [string, readonly number[], RegExp][] = [
    [' {}', [], /begin with/],
    ['{"a":', [], /no JSON/],
    [`{"a":{${one},"data_offsets":[0,8]}}`, [0, 0, 0, 0, 0, 0, 0, 0], /8 bytes do not hold 1 x F32/],
    [`{"a":{${one},"data_offsets":[0,4]}}`, [0, 0], /ends at byte 4/],
    [`{"a":{${one},"data_offsets":[4,8]}}`, [0, 0, 0, 0, 0, 0, 0, 0], /no gaps/],
    [`{"a":{${one},"data_offsets":[0,4]},"b":{${one},"data_offsets":[0,4]}}`, [0, 0, 0, 0], /no gaps and no overlaps/],
    [`{"a":{${one},"data_offsets":[0,4]}}`, [0, 0, 0, 0, 9], /1 bytes follow/],
    ['{"a":{"shape":[1],"dtype":"F13","data_offsets":[0,4]}}', [0, 0, 0, 0], /dtype F13/],
    ['{"a":{"shape":[-1],"dtype":"F32","data_offsets":[0,4]}}', [0, 0, 0, 0], /lacks a shape/],
    ['{"__metadata__":{"n":3}}', [], /maps texts to texts/],
  ];
  for (const [header, data, reason] of cases) assert.throws(() => decodeSafetensors(byHand(header, data)), reason);
  assert.throws(() => decodeSafetensors(Uint8Array.of(1, 2)), /at least 8 bytes/);
  assert.throws(() => decodeSafetensors(Uint8Array.of(255, 255, 255, 255, 0, 0, 0, 0)), /longer than/);
  assert.throws(() => encodeSafetensors([{ name: 'a', shape: [3], data: new Float32Array(2) }]), /has 2 elements/);
});

test('weights go out and come back, tensor by tensor', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-weights-'));
  try {
    const path = join(folder, 'model.safetensors');
    const make = (seed: number) => new Model({ input: [6], layers: [flatten(), linear(4), linear(2)], maxBatch: 1, seed });
    const model = make(1);
    exportWeights(model, path, { made: 'here' });
    const { tensors } = decodeSafetensors(readFileSync(path));
    assert.deepEqual(
      [...tensors.keys()],
      model.ranges.map(({ name }) => name),
    );
    const other = make(2);
    assert.notDeepEqual(other.parameters, model.parameters);
    importWeights(other, path);
    assert.deepEqual(other.parameters, model.parameters);
    const wrong = new Model({ input: [6], layers: [flatten(), linear(5), linear(2)], maxBatch: 1 });
    assert.throws(() => importWeights(wrong, path), /the model wants/);
    mkdirSync(join(folder, 'taken'));
    assert.throws(() => exportWeights(model, join(folder, 'taken')), /EISDIR/);
    assert.deepEqual(readdirSync(folder), ['model.safetensors', 'taken'], 'half a file is not left');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
