/**
 * A seeded generator for everything that is drawn on the JavaScript side: initial weights and the order of samples.
 *
 * xoshiro128** (Blackman and Vigna), its state filled from the seed and a stream number by a multiplicative hash, so that neighbouring
 * seeds and streams share nothing. The state is four words and can be saved.
 */
export class Random {
  readonly #state = new Uint32Array(4);
  #spare = Number.NaN;

  /** `seed` and `stream`: integers; equal pairs draw equal numbers. Default stream: 0. */
  constructor(seed: number, stream = 0) {
    let word =
      (Math.imul(seed | 0, 0x9e3779b1) ^ Math.imul((stream + 0x7f4a7c15) | 0, 0x85ebca6b) ^ Math.floor(seed / 2 ** 32)) | 0;
    for (let i = 0; i < 4; i++) {
      word = (word + 0x9e3779b9) | 0;
      let mixed = Math.imul(word ^ (word >>> 16), 0x21f0aaad);
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
      this.#state[i] = mixed ^ (mixed >>> 15);
    }
    if (this.#state.every((value) => value === 0)) this.#state[0] = 1;
  }

  /** An integer in 0 .. 2^32 - 1. */
  word(): number {
    const s = this.#state;
    const turned = Math.imul(s[1], 5);
    const out = Math.imul((turned << 7) | (turned >>> 25), 9) >>> 0;
    const shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return out;
  }

  /** A number in [0, 1). */
  uniform(): number {
    return this.word() / 2 ** 32;
  }

  /** An integer in 0 .. below - 1, without bias. `below`: 1 .. 2^32. */
  integer(below: number): number {
    const limit = 2 ** 32 - (2 ** 32 % below);
    let word = this.word();
    while (word >= limit) word = this.word();
    return word % below;
  }

  /** A number of the standard normal distribution. */
  normal(): number {
    if (!Number.isNaN(this.#spare)) {
      const out = this.#spare;
      this.#spare = Number.NaN;
      return out;
    }
    const length = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    const angle = 2 * Math.PI * this.uniform();
    this.#spare = length * Math.sin(angle);
    return length * Math.cos(angle);
  }

  /** Puts the array into a random order, each equally likely. */
  shuffle(array: Uint32Array): void {
    for (let i = array.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      const kept = array[i];
      array[i] = array[j];
      array[j] = kept;
    }
  }
}
