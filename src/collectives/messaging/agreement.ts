/**
 * How a call begins: the ranks find out whether all have made the same one, before a byte of anybody's vector moves.
 *
 *   round k   send to rank + 2^k what I know, take from rank - 2^k what it knows       (dissemination; log2 p rounds)
 *             known: the smallest and the largest signature so far, as numbers, and a rank that has each
 *
 * Afterwards everybody knows the extremes of all ranks. Are they equal, the call goes on, and nobody came this far before all had entered: for a barrier that is
 * all. Are they not, the two ranks named tell everybody what they called and where, and the call ends with COLL_MISMATCH at all ranks alike.
 */

import type { Payload } from '../../messaging/index.js';
import { payloadOf } from '../../messaging/payload.js';
import { describeMismatch, type Signature, type Statement } from '../call-site.js';

/** Words: hash, second hash, rank; of the smallest, then of the largest. */
const WORDS = 6;
const MOST_TEXT = 4096;

export interface Verdict {
  /** The ranks with the extreme signatures. */
  readonly low: number;
  readonly high: number;
}

export class Agreement {
  readonly rounds: number;
  readonly out: Payload;
  readonly in: Payload;
  readonly #rank: number;
  readonly #size: number;
  readonly #signature: Signature;
  readonly #own: readonly [number, number];
  readonly #known: Int32Array;
  readonly #heard: Int32Array;

  constructor(rank: number, size: number, signature: Signature) {
    this.#rank = rank;
    this.#size = size;
    this.#signature = signature;
    this.rounds = Math.ceil(Math.log2(size));
    const text = JSON.stringify(signature);
    this.#own = [hash(text, 0x811c9dc5), hash(text, 0x1234567)];
    this.#known = new Int32Array(WORDS);
    this.#heard = new Int32Array(WORDS);
    this.out = payloadOf(this.#known);
    this.in = payloadOf(this.#heard);
  }

  begin(): void {
    const [first, second] = this.#own;
    const known = this.#known;
    known[0] = known[3] = first;
    known[1] = known[4] = second;
    known[2] = known[5] = this.#rank;
  }

  to(round: number): number {
    return (this.#rank + 2 ** round) % this.#size;
  }

  from(round: number): number {
    return (this.#rank - 2 ** round + this.#size * 2 ** round) % this.#size;
  }

  /** Takes in what was heard. */
  merge(): void {
    const [known, heard] = [this.#known, this.#heard];
    if (compare(heard, 0, known, 0) < 0) for (let w = 0; w < 3; w++) known[w] = heard[w];
    if (compare(heard, 3, known, 3) > 0) for (let w = 3; w < 6; w++) known[w] = heard[w];
  }

  /** Undefined: all agree. */
  verdict(): Verdict | undefined {
    const known = this.#known;
    if (known[0] === known[3] && known[1] === known[4]) return undefined;
    return { low: known[2], high: known[5] };
  }

  statement(site: string): Payload {
    const said: Statement = { rank: this.#rank, signature: this.#signature, site };
    return payloadOf(new TextEncoder().encode(JSON.stringify(said)).subarray(0, MOST_TEXT));
  }

  static room(): Uint8Array {
    return new Uint8Array(MOST_TEXT);
  }

  /** The words of COLL_MISMATCH for this rank. */
  describe(site: string, said: readonly { readonly bytes: Uint8Array; readonly length: number }[]): string {
    const own: Statement = { rank: this.#rank, signature: this.#signature, site };
    const texts = said.map(({ bytes, length }) => new TextDecoder().decode(bytes.subarray(0, length)));
    const other = texts
      .map((text) => JSON.parse(text) as Statement)
      .find(({ signature }) => JSON.stringify(signature) !== JSON.stringify(this.#signature));
    return other === undefined ? 'the ranks called different operations' : describeMismatch(own, other);
  }
}

function compare(a: Int32Array, at: number, b: Int32Array, bt: number): number {
  for (let w = 0; w < 3; w++) if (a[at + w] !== b[bt + w]) return a[at + w] < b[bt + w] ? -1 : 1;
  return 0;
}

/** FNV-1a with a seed. */
function hash(text: string, seed: number): number {
  let h = seed | 0;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h | 0;
}
