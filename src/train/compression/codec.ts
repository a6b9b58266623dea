/**
 * A codec: numbers to bytes and back, for encodings that any rank can make of its own numbers alone.
 *
 * An encoding has a fixed room for its length, so that those of all ranks lie side by side and one all-gather brings them together.
 */
import type { Compression } from './compression.js';
import * as kernels from './kernels.js';

export interface Codec {
  /** Room for an encoding of `n` numbers, bytes; a multiple of 8. */
  room(n: number): number;
  /** Encodes `x`, and leaves in it what the encoding does not say. Returns the bytes that count, at most the room. `out` begins at a multiple of 8. */
  encode(x: Float32Array, out: Uint8Array): number;
  /** y = what the encoding says, or y += that. Throws a RangeError for bytes that are no encoding of as many numbers. */
  decode(encoded: Uint8Array, y: Float32Array, add: boolean): void;
}

const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8;
const u16 = (bytes: Uint8Array, n: number) => new Uint16Array(bytes.buffer, bytes.byteOffset, n);
const u32 = (bytes: Uint8Array, at: number, n: number) => new Uint32Array(bytes.buffer, bytes.byteOffset + at, n);
const f32 = (bytes: Uint8Array, at: number, n: number) => new Float32Array(bytes.buffer, bytes.byteOffset + at, n);

const fp16: Codec = {
  room: (n) => aligned(2 * n),
  encode(x, out) {
    kernels.f16Encode(x, u16(out, x.length));
    return 2 * x.length;
  },
  decode: (encoded, y, add) => kernels.f16Decode(u16(encoded, y.length), y, add),
};

const bf16: Codec = {
  room: (n) => aligned(2 * n),
  encode(x, out) {
    kernels.bf16Encode(x, u16(out, x.length));
    return 2 * x.length;
  },
  decode: (encoded, y, add) => kernels.bf16Decode(u16(encoded, y.length), y, add),
};

/** scale f32 | a byte for each number */
const int8: Codec = {
  room: (n) => aligned(4 + n),
  encode(x, out) {
    const unit = f32(out, 0, 1);
    unit[0] = kernels.absMax(x) / 127;
    kernels.int8Encode(x, new Int8Array(out.buffer, out.byteOffset + 4, x.length), unit[0]);
    return 4 + x.length;
  },
  decode(encoded, y, add) {
    kernels.int8Decode(new Int8Array(encoded.buffer, encoded.byteOffset + 4, y.length), y, f32(encoded, 0, 1)[0], add);
  },
};

/** mean below 0, mean above f32 | a bit for each number */
const oneBit: Codec = {
  room: (n) => aligned(8 + 4 * Math.ceil(n / 32)),
  encode(x, out) {
    const words = Math.ceil(x.length / 32);
    kernels.oneBitEncode(x, u32(out, 8, words), f32(out, 0, 2));
    return 8 + 4 * words;
  },
  decode: (encoded, y, add) => kernels.oneBitDecode(u32(encoded, 8, Math.ceil(y.length / 32)), f32(encoded, 0, 2), y, add),
};

/** places u32 | numbers f32 */
function topK(ratio: number): Codec {
  const count = (n: number) => Math.min(n, Math.ceil(ratio * n));
  return {
    room: (n) => 8 * count(n),
    encode(x, out) {
      const k = count(x.length);
      kernels.topK(x, u32(out, 0, k), f32(out, 4 * k, k));
      return 8 * k;
    },
    decode(encoded, y, add) {
      const k = count(y.length);
      if (!add) y.fill(0);
      kernels.sparseAdd(u32(encoded, 0, k), f32(encoded, 4 * k, k), y);
    },
  };
}

/** count u32 | nothing u32 | places u32 | numbers f32. At most a quarter of the numbers, the greatest: the others wait. */
function threshold(limit: number): Codec {
  const most = (n: number) => Math.ceil(n / 4);
  return {
    room: (n) => 8 + 8 * most(n),
    encode(x, out) {
      const room = most(x.length);
      const [index, value] = [u32(out, 8, room), new Float32Array(room)];
      const count = kernels.thresholdSelect(x, limit, index, value);
      if (count === room) {
        // There may be more. The first ones every time would leave the last ones waiting for ever.
        kernels.sparseAdd(index, value, x);
        kernels.topK(x, index, value);
      }
      u32(out, 0, 2).set([count, 0]);
      f32(out, 8 + 4 * count, count).set(value.subarray(0, count));
      return 8 + 8 * count;
    },
    decode(encoded, y, add) {
      const [count] = u32(encoded, 0, 1);
      if (count > most(y.length)) throw new RangeError(`a sparse gradient of ${count} numbers for ${y.length} elements`);
      if (!add) y.fill(0);
      kernels.sparseAdd(u32(encoded, 8, count), f32(encoded, 8 + 4 * count, count), y);
    },
  };
}

/** The codec of a compression; undefined for those that are sums over the ranks (random-k, power-sgd). */
export function codecOf(compression: Compression): Codec | undefined {
  switch (compression.kind) {
    case 'fp16':
      return fp16;
    case 'bf16':
      return bf16;
    case 'int8':
      return int8;
    case 'one-bit':
      return oneBit;
    case 'top-k':
      return topK(compression.ratio);
    case 'threshold':
      return threshold(compression.limit);
    default:
      return undefined;
  }
}
