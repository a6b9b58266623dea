/**
 * Queues for tag matching: posted receives, and messages that came before their receive. Matching order is MPI's: a message takes the oldest receive
 * that fits, a receive takes the oldest message that fits.
 *
 * ```
 *   by age    oldest <-> 48 <-> 64 <-> 144 <-> newest               what wildcards walk
 *   by key    bin[hash(context, tag, source)] -> 64 -> 144          what exact ones walk: a few entries, however long the queue is
 * ```
 * A short queue is walked by age and has no bins: they are filled when it grows beyond a few entries. The oldest entry is tried first, because most
 * programs receive in the order of sending. An entry is a row of 16 words, a cache line, named by the place of its first word; adding and removing allocates
 * nothing once the memory is wide enough. An entry with a mask (or, in the queue of messages, nothing) stands only in the list by age. A posted receive from any
 * source is keyed with ANY, so an arrival looks into two bins and into the list of wildcards. Bins double when there are twice as many entries.
 */

/** Source of a receive that takes messages from everyone. */
export const ANY_SOURCE = -1;

const NONE = -1;
/** Up to here a walk is faster than hashing. */
const SHORT = 64;

// Words of a row. A chain takes two: the next row and the one before.
const CONTEXT = 0;
const TAG_LO = 1;
const TAG_HI = 2;
const MASK_LO = 3;
const MASK_HI = 4;
const SOURCE = 5;
const VALUE = 6;
const AGE = 7;
const NEXT = 8;
const BEFORE = 9;
const BY_KEY = 10;
const ASIDE = 12;
const BIN = 14;
const BIN_ASIDE = 15;
const ROW_WORDS = 16;

function hash(context: number, lo: number, hi: number, source: number): number {
  let h = Math.imul(lo ^ Math.imul(hi, 0x9e3779b1), 0x85ebca6b) ^ Math.imul(context + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ Math.imul(source + 2, 0x27d4eb2f), 0x165667b1);
  return h ^ (h >>> 13);
}

/** Chains of rows: one per bin, in the order of adding. Their links stand in the rows, at a word. */
class Chains {
  head: Int32Array;
  #tail: Int32Array;
  readonly #link: number;

  constructor(bins: number, link: number) {
    this.head = new Int32Array(bins).fill(NONE);
    this.#tail = new Int32Array(bins).fill(NONE);
    this.#link = link;
  }

  append(rows: Int32Array, bin: number, row: number): void {
    const at = this.#link;
    const last = this.#tail[bin];
    rows[row + at] = NONE;
    rows[row + at + 1] = last;
    if (last === NONE) this.head[bin] = row;
    else rows[last + at] = row;
    this.#tail[bin] = row;
  }

  remove(rows: Int32Array, bin: number, row: number): void {
    const at = this.#link;
    const after = rows[row + at];
    const before = rows[row + at + 1];
    if (before === NONE) this.head[bin] = after;
    else rows[before + at] = after;
    if (after === NONE) this.#tail[bin] = before;
    else rows[after + at + 1] = before;
  }

  /** Empties them. */
  reset(bins: number): void {
    this.head = new Int32Array(bins).fill(NONE);
    this.#tail = new Int32Array(bins).fill(NONE);
  }
}

/** Rows with a context, a tag and a source, kept by age and by key. */
abstract class MatchQueue {
  count = 0;
  /** The oldest row, or -1. */
  oldest: number = NONE;
  protected rows = new Int32Array(64 * ROW_WORDS);
  protected readonly byKey = new Chains(64, BY_KEY);
  /** Whether the rows are in bins. */
  protected binned = false;
  #newest = NONE;
  /** Rows that are free, by NEXT; those behind the end were never used. */
  #free = NONE;
  #end = 0;
  #clock = 0;

  /** Puts a row into its bins, and takes it out of them. */
  protected abstract chain(row: number): void;
  protected abstract unchain(row: number): void;
  /** Empties the bins beside those by key. */
  protected abstract resetAside(bins: number): void;

  /** The row added after this one, or -1. */
  after(row: number): number {
    return this.rows[row + NEXT];
  }

  /** What a row stands for: the caller's number. */
  value(row: number): number {
    return this.rows[row + VALUE];
  }

  context(row: number): number {
    return this.rows[row + CONTEXT];
  }

  tagLo(row: number): number {
    return this.rows[row + TAG_LO];
  }

  tagHi(row: number): number {
    return this.rows[row + TAG_HI];
  }

  maskLo(row: number): number {
    return this.rows[row + MASK_LO];
  }

  maskHi(row: number): number {
    return this.rows[row + MASK_HI];
  }

  source(row: number): number {
    return this.rows[row + SOURCE];
  }

  protected append(
    context: number,
    lo: number,
    hi: number,
    maskLo: number,
    maskHi: number,
    source: number,
    value: number,
  ): number {
    let row = this.#free;
    if (row !== NONE) {
      this.#free = this.rows[row + NEXT];
    } else {
      if (this.#end === this.rows.length) this.#widen();
      row = this.#end;
      this.#end += ROW_WORDS;
    }
    const { rows } = this;
    const newest = this.#newest;
    this.#newest = row;
    rows[row + CONTEXT] = context;
    rows[row + TAG_LO] = lo;
    rows[row + TAG_HI] = hi;
    rows[row + MASK_LO] = maskLo;
    rows[row + MASK_HI] = maskHi;
    rows[row + SOURCE] = source;
    rows[row + VALUE] = value;
    this.#clock = (this.#clock + 1) | 0;
    rows[row + AGE] = this.#clock;
    rows[row + NEXT] = NONE;
    rows[row + BEFORE] = newest;
    if (newest === NONE) this.oldest = row;
    else rows[newest + NEXT] = row;
    if (++this.count > SHORT || this.binned) this.#bin(row);
    return row;
  }

  remove(row: number): void {
    if (this.binned) this.unchain(row);
    const { rows } = this;
    const after = rows[row + NEXT];
    const before = rows[row + BEFORE];
    if (before === NONE) this.oldest = after;
    else rows[before + NEXT] = after;
    if (after === NONE) this.#newest = before;
    else rows[after + BEFORE] = before;
    rows[row + NEXT] = this.#free;
    this.#free = row;
    if (--this.count <= SHORT >> 1) this.binned = false;
  }

  protected binOf(context: number, lo: number, hi: number, source: number): number {
    return hash(context, lo, hi, source) & (this.byKey.head.length - 1);
  }

  /** Whether the row was added before the other one. */
  protected isOlder(row: number, other: number): boolean {
    return ((this.rows[row + AGE] - this.rows[other + AGE]) | 0) < 0;
  }

  /** A row was added to a long queue: it goes into its bins, or all do. */
  #bin(row: number): void {
    const bins = this.byKey.head.length;
    if (this.binned && this.count <= bins * 2) {
      this.chain(row);
      return;
    }
    const wider = this.count > bins * 2 ? bins * 4 : bins;
    this.binned = true;
    this.byKey.reset(wider);
    this.resetAside(wider);
    for (let each = this.oldest; each !== NONE; each = this.rows[each + NEXT]) this.chain(each);
  }

  #widen(): void {
    const rows = new Int32Array(this.rows.length * 2);
    rows.set(this.rows);
    this.rows = rows;
  }
}

/** Receives that wait for a message. */
export class PostedReceives extends MatchQueue {
  /** Receives with a mask: in the order of posting. */
  readonly #wild = new Chains(1, ASIDE);

  add(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number, value: number): number {
    return this.append(context, lo, hi, maskLo, maskHi, source, value);
  }

  #isExact(row: number): boolean {
    return (this.rows[row + MASK_LO] & this.rows[row + MASK_HI]) === -1;
  }

  protected chain(row: number): void {
    const { rows } = this;
    if (this.#isExact(row)) {
      const bin = this.binOf(rows[row + CONTEXT], rows[row + TAG_LO], rows[row + TAG_HI], rows[row + SOURCE]);
      rows[row + BIN] = bin;
      this.byKey.append(rows, bin, row);
    } else {
      this.#wild.append(rows, 0, row);
    }
  }

  protected unchain(row: number): void {
    const { rows } = this;
    if (this.#isExact(row)) this.byKey.remove(rows, rows[row + BIN], row);
    else this.#wild.remove(rows, 0, row);
  }

  protected resetAside(): void {
    this.#wild.reset(1);
  }

  #fits(row: number, context: number, lo: number, hi: number, source: number): boolean {
    const { rows } = this;
    const from = rows[row + SOURCE];
    return (
      ((rows[row + TAG_LO] ^ lo) & rows[row + MASK_LO]) === 0 &&
      ((rows[row + TAG_HI] ^ hi) & rows[row + MASK_HI]) === 0 &&
      rows[row + CONTEXT] === context &&
      (from === ANY_SOURCE || from === source)
    );
  }

  /** The oldest receive that a message fits, or -1. */
  find(context: number, lo: number, hi: number, source: number): number {
    const { oldest } = this;
    if (oldest === NONE || this.#fits(oldest, context, lo, hi, source)) return oldest;
    if (!this.binned) {
      let row = this.after(oldest);
      while (row !== NONE && !this.#fits(row, context, lo, hi, source)) row = this.after(row);
      return row;
    }
    let best = this.#first(context, lo, hi, source);
    const any = this.#first(context, lo, hi, ANY_SOURCE);
    if (any !== NONE && (best === NONE || this.isOlder(any, best))) best = any;
    for (let row = this.#wild.head[0]; row !== NONE; row = this.rows[row + ASIDE]) {
      if (best !== NONE && this.isOlder(best, row)) break;
      if (this.#fits(row, context, lo, hi, source)) return row;
    }
    return best;
  }

  #first(context: number, lo: number, hi: number, source: number): number {
    const { rows } = this;
    let row = this.byKey.head[this.binOf(context, lo, hi, source)];
    while (
      row !== NONE &&
      !(
        rows[row + TAG_LO] === lo &&
        rows[row + TAG_HI] === hi &&
        rows[row + SOURCE] === source &&
        rows[row + CONTEXT] === context
      )
    ) {
      row = rows[row + BY_KEY];
    }
    return row;
  }
}

/** Messages that came before their receive. */
export class UnexpectedMessages extends MatchQueue {
  /** The same keys without the source: for receives from anyone. */
  readonly #byTag = new Chains(64, ASIDE);

  add(context: number, lo: number, hi: number, source: number, value: number): number {
    return this.append(context, lo, hi, -1, -1, source, value);
  }

  protected chain(row: number): void {
    const { rows } = this;
    const context = rows[row + CONTEXT];
    const lo = rows[row + TAG_LO];
    const hi = rows[row + TAG_HI];
    const bin = this.binOf(context, lo, hi, rows[row + SOURCE]);
    const binAside = this.binOf(context, lo, hi, ANY_SOURCE);
    rows[row + BIN] = bin;
    rows[row + BIN_ASIDE] = binAside;
    this.byKey.append(rows, bin, row);
    this.#byTag.append(rows, binAside, row);
  }

  protected unchain(row: number): void {
    const { rows } = this;
    this.byKey.remove(rows, rows[row + BIN], row);
    this.#byTag.remove(rows, rows[row + BIN_ASIDE], row);
  }

  protected resetAside(bins: number): void {
    this.#byTag.reset(bins);
  }

  /** The oldest message that a receive fits, or -1. */
  find(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): number {
    const { rows } = this;
    let row = this.oldest;
    let next = NEXT;
    if (this.binned && (maskLo & maskHi) === -1) {
      const isAnyone = source === ANY_SOURCE;
      row = (isAnyone ? this.#byTag : this.byKey).head[this.binOf(context, lo, hi, source)];
      next = isAnyone ? ASIDE : BY_KEY;
    }
    while (row !== NONE) {
      if (
        ((rows[row + TAG_LO] ^ lo) & maskLo) === 0 &&
        ((rows[row + TAG_HI] ^ hi) & maskHi) === 0 &&
        rows[row + CONTEXT] === context &&
        (source === ANY_SOURCE || rows[row + SOURCE] === source)
      ) {
        return row;
      }
      row = rows[row + next];
    }
    return NONE;
  }
}
