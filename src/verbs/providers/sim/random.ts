/**
 * A seeded source of numbers: the only chance in the simulated fabric. Integer arithmetic alone, so that both architectures agree.
 *
 * It is xoshiro128** started by splitmix32; small, fast, and good enough for faults and test data. Not for secrets.
 */

export class Random {
  private a: number;
  private b: number;
  private c: number;
  private d: number;

  /** @param seed any number; its lower 53 bits count. */
  constructor(seed: number) {
    let s = (seed ^ Math.floor(seed / 0x100000000)) | 0;
    const mix = (): number => {
      s = (s + 0x9e3779b9) | 0;
      let z = s;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return z ^ (z >>> 15);
    };
    this.a = mix();
    this.b = mix();
    this.c = mix();
    this.d = mix();
  }

  /** 32 bits, unsigned. */
  u32(): number {
    const x = Math.imul(this.b, 5);
    const result = Math.imul((x << 7) | (x >>> 25), 9) >>> 0;
    const t = this.b << 9;
    this.c ^= this.a;
    this.d ^= this.b;
    this.b ^= this.c;
    this.a ^= this.d;
    this.c ^= t;
    this.d = (this.d << 11) | (this.d >>> 21);
    return result;
  }

  /** An integer in [0, n), n at most 2^32. */
  below(n: number): number {
    return Math.floor((this.u32() * n) / 0x100000000);
  }

  /** An integer in [low, high], both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** True in `perMillion` of a million cases. */
  chance(perMillion: number): boolean {
    return perMillion > 0 && this.below(1_000_000) < perMillion;
  }
}
