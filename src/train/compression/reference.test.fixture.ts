/** The kernels of kernels.ts in plain TypeScript, written for reading: what the C is held to, bit by bit. Each leaves in `x` what it could not express. */

const f32 = Math.fround;
const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

export function floatOf(bits: number): number {
  word[0] = bits;
  return float[0];
}

/** To the nearest integer, ties to even. */
function nearest(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** A float in `significand` bits (the hidden one counted) whose exponents begin at `least`; too large becomes infinite. */
function rounded(x: number, significand: number, least: number, greatest: number): number {
  if (!Number.isFinite(x) || x === 0) return x;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(x))), least);
  // log2 may be off by one next to a power of two: a unit that is too fine is found below.
  const fits = Math.abs(x) < 2 ** exponent && exponent > least ? exponent - 1 : exponent;
  const unit = 2 ** (fits - significand + 1);
  const near = nearest(x / unit) * unit;
  return Math.abs(near) > greatest ? Math.sign(near) * Number.POSITIVE_INFINITY : near;
}

export function halfValue(x: number): number {
  return rounded(x, 11, -14, 65504);
}

export function bfloatValue(x: number): number {
  return rounded(x, 8, -126, floatOf(0x7f7f0000));
}

export function weightedSum(sources: readonly Float32Array[], factors: readonly number[], length: number): Float32Array {
  const y = new Float32Array(length);
  for (const [s, x] of sources.entries()) {
    for (let i = 0; i < length; i++) {
      const product = f32(f32(factors[s]) * x[i]);
      y[i] = s === 0 ? product : y[i] + product;
    }
  }
  return y;
}

export function int8(x: Float32Array, unit: number): Int8Array {
  return Int8Array.from(x, (value, i) => {
    const q = unit > 0 ? nearest(Math.max(-127, Math.min(127, f32(value / unit)))) : 0;
    x[i] = f32(value - f32(q * unit));
    return q;
  });
}

export function oneBit(x: Float32Array): { bits: boolean[]; means: [number, number] } {
  const bits = Array.from(x, (value) => value >= 0);
  const mean = (side: boolean): number => {
    const own = x.filter((_, i) => bits[i] === side);
    return own.length === 0 ? 0 : f32(own.reduce((sum, value) => sum + value, 0) / own.length);
  };
  const means: [number, number] = [mean(false), mean(true)];
  for (let i = 0; i < x.length; i++) x[i] = f32(x[i] - means[bits[i] ? 1 : 0]);
  return { bits, means };
}

export function topK(x: Float32Array, k: number): { index: number[]; value: number[] } {
  const index = Array.from(x, (_, i) => i)
    .sort((a, b) => Math.abs(x[b]) - Math.abs(x[a]) || a - b)
    .slice(0, k)
    .sort((a, b) => a - b);
  const value = index.map((i) => x[i]);
  for (const i of index) x[i] = 0;
  return { index, value };
}

export function threshold(x: Float32Array, limit: number, most: number): { index: number[]; value: number[] } {
  const index = Array.from(x, (_, i) => i)
    .filter((i) => Math.abs(x[i]) >= limit)
    .slice(0, most);
  const value = index.map((i) => x[i]);
  for (const i of index) x[i] = 0;
  return { index, value };
}

function mixed(h: number): number {
  let a = h ^ (h >>> 16);
  a = Math.imul(a, 0x21f0aaad);
  a ^= a >>> 15;
  a = Math.imul(a, 0x735a2d97);
  return (a ^ (a >>> 15)) >>> 0;
}

/** Places that random-k takes: one of each of k equal stretches. */
export function randomPlaces(n: number, k: number, seed: number, step: number): number[] {
  return Array.from({ length: k }, (_, s) => {
    const from = Math.floor((s * n) / k);
    const to = Math.floor(((s + 1) * n) / k);
    const draw = mixed(mixed((mixed(seed) ^ step) >>> 0) ^ s);
    return from + Number((BigInt(draw) * BigInt(to - from)) >> 32n);
  });
}
