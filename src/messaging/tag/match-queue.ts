/**
 * Queues for tag matching: posted receives, and messages that came before their receive. Matching order is MPI's: a message takes the oldest receive
 * that fits, a receive takes the oldest message that fits.
 *
 * ```
 *   by age    head <-> 3 <-> 4 <-> 9 <-> tail                       what wildcards walk
 *   by key    bin[hash(context, tag, source)] -> 4 -> 9             what exact ones walk: a few entries, however long the queue is
 * ```
 * A short queue is walked by age and has no bins: they are filled when it grows beyond a few entries. The oldest entry is tried first, because most
 * programs receive in the order of sending. Entries are rows of typed arrays; adding and removing allocates nothing once the arrays are wide enough. An entry with a mask (or, in the queue of
 * messages, nothing) stands only in the list by age. A posted receive from any source is keyed with ANY, so an arrival looks into two bins and
 * into the list of wildcards. Bins double when there are twice as many entries.
 */

/** Source of a receive that takes messages from everyone. */
export const ANY_SOURCE = -1;

const NONE = -1;
/** Up to here a walk is faster than hashing. */
const SHORT = 64;

function hash(context: number, lo: number, hi: number, source: number): number {
  let h = Math.imul(lo ^ Math.imul(hi, 0x9e3779b1), 0x85ebca6b) ^ Math.imul(context + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ Math.imul(source + 2, 0x27d4eb2f), 0x165667b1);
  return h ^ (h >>> 13);
}

/** Chains of rows: one per bin, in the order of adding. */
class Chains {
  head: Int32Array;
  tail: Int32Array;
  next: Int32Array;
  prev: Int32Array;

  constructor(bins: number, rows: number) {
    this.head = new Int32Array(bins).fill(NONE);
    this.tail = new Int32Array(bins).fill(NONE);
    this.next = new Int32Array(rows);
    this.prev = new Int32Array(rows);
  }

  append(bin: number, row: number): void {
    const last = this.tail[bin];
    this.prev[row] = last;
    this.next[row] = NONE;
    if (last === NONE) this.head[bin] = row;
    else this.next[last] = row;
    this.tail[bin] = row;
  }

  remove(bin: number, row: number): void {
    const before = this.prev[row];
    const after = this.next[row];
    if (before === NONE) this.head[bin] = after;
    else this.next[before] = after;
    if (after === NONE) this.tail[bin] = before;
    else this.prev[after] = before;
  }

  widen(rows: number): void {
    const next = new Int32Array(rows);
    const prev = new Int32Array(rows);
    next.set(this.next);
    prev.set(this.prev);
    this.next = next;
    this.prev = prev;
  }

  rebin(bins: number): void {
    this.head = new Int32Array(bins).fill(NONE);
    this.tail = new Int32Array(bins).fill(NONE);
  }
}

/** Rows with a context, a tag and a source, kept by age and by key. */
abstract class MatchQueue {
  count = 0;
  context = new Int32Array(64);
  tagLo = new Int32Array(64);
  tagHi = new Int32Array(64);
  maskLo = new Int32Array(64);
  maskHi = new Int32Array(64);
  source = new Int32Array(64);
  /** What the row stands for: the caller's number. */
  value = new Int32Array(64);
  protected age = new Float64Array(64);
  protected readonly byAge = new Chains(1, 64);
  protected readonly byKey = new Chains(64, 64);
  /** Whether the rows are in bins. */
  protected binned = false;
  /** The bin of each row in `byKey`. */
  protected binOf = new Int32Array(64);
  #free = new Int32Array(64);
  #freeCount = 0;
  #size = 0;
  #clock = 0;

  /** The oldest row, or -1. */
  get oldest(): number {
    return this.byAge.head[0];
  }

  /** The row added after this one, or -1. */
  after(row: number): number {
    return this.byAge.next[row];
  }

  protected take(context: number, lo: number, hi: number, source: number, value: number): number {
    let row: number;
    if (this.#freeCount > 0) {
      row = this.#free[--this.#freeCount];
    } else {
      if (this.#size === this.context.length) this.#widen();
      row = this.#size++;
    }
    this.context[row] = context;
    this.tagLo[row] = lo;
    this.tagHi[row] = hi;
    this.source[row] = source;
    this.value[row] = value;
    this.age[row] = this.#clock++;
    this.count++;
    if (this.count > SHORT) this.#rebin();
    return row;
  }

  protected give(row: number): void {
    this.#free[this.#freeCount++] = row;
    if (--this.count === 0) this.binned = false;
  }

  protected bin(context: number, lo: number, hi: number, source: number): number {
    return hash(context, lo, hi, source) & (this.byKey.head.length - 1);
  }

  /** Puts every row into its chains again. */
  protected abstract rechain(): void;

  #rebin(): void {
    const bins = this.byKey.head.length;
    if (this.binned && this.count <= bins * 2) return;
    if (this.count > bins * 2) this.byKey.rebin(bins * 4);
    this.binned = true;
    this.rechain();
  }

  #widen(): void {
    const rows = this.context.length * 2;
    const wider = (old: Int32Array): Int32Array<ArrayBuffer> => {
      const next = new Int32Array(rows);
      next.set(old);
      return next;
    };
    this.context = wider(this.context);
    this.tagLo = wider(this.tagLo);
    this.tagHi = wider(this.tagHi);
    this.maskLo = wider(this.maskLo);
    this.maskHi = wider(this.maskHi);
    this.source = wider(this.source);
    this.value = wider(this.value);
    this.#free = wider(this.#free);
    this.binOf = wider(this.binOf);
    const age = new Float64Array(rows);
    age.set(this.age);
    this.age = age;
    this.byAge.widen(rows);
    this.byKey.widen(rows);
    this.widened(rows);
  }

  protected widened(_rows: number): void {}
}

/** Receives that wait for a message. */
export class PostedReceives extends MatchQueue {
  /** Receives with a mask: in the order of posting. */
  readonly #wild = new Chains(1, 64);

  add(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number, value: number): number {
    const row = this.take(context, lo, hi, source, value);
    this.maskLo[row] = maskLo;
    this.maskHi[row] = maskHi;
    this.byAge.append(0, row);
    if (this.binned) this.#chain(row);
    return row;
  }

  #chain(row: number): void {
    if ((this.maskLo[row] & this.maskHi[row]) === -1) {
      const bin = this.bin(this.context[row], this.tagLo[row], this.tagHi[row], this.source[row]);
      this.binOf[row] = bin;
      this.byKey.append(bin, row);
    } else {
      this.#wild.append(0, row);
    }
  }

  remove(row: number): void {
    this.byAge.remove(0, row);
    if (this.binned) {
      if ((this.maskLo[row] & this.maskHi[row]) === -1) this.byKey.remove(this.binOf[row], row);
      else this.#wild.remove(0, row);
    }
    this.give(row);
  }

  #fits(row: number, context: number, lo: number, hi: number, source: number): boolean {
    return (
      ((this.tagLo[row] ^ lo) & this.maskLo[row]) === 0 &&
      ((this.tagHi[row] ^ hi) & this.maskHi[row]) === 0 &&
      this.context[row] === context &&
      (this.source[row] === ANY_SOURCE || this.source[row] === source)
    );
  }

  /** The oldest receive that a message fits, or -1. */
  find(context: number, lo: number, hi: number, source: number): number {
    if (this.count === 0) return NONE;
    const oldest = this.byAge.head[0];
    if (this.#fits(oldest, context, lo, hi, source)) return oldest;
    if (!this.binned) {
      let row = this.byAge.next[oldest];
      while (row !== NONE && !this.#fits(row, context, lo, hi, source)) row = this.byAge.next[row];
      return row;
    }
    const own = this.#first(context, lo, hi, source, source);
    const any = this.#first(context, lo, hi, ANY_SOURCE, ANY_SOURCE);
    let best = own;
    if (any !== NONE && (best === NONE || this.age[any] < this.age[best])) best = any;
    for (let row = this.#wild.head[0]; row !== NONE; row = this.#wild.next[row]) {
      if (best !== NONE && this.age[best] < this.age[row]) break;
      if (this.#fits(row, context, lo, hi, source)) return row;
    }
    return best;
  }

  #first(context: number, lo: number, hi: number, source: number, key: number): number {
    let row = this.byKey.head[this.bin(context, lo, hi, key)];
    while (
      row !== NONE &&
      !(this.tagLo[row] === lo && this.tagHi[row] === hi && this.source[row] === source && this.context[row] === context)
    ) {
      row = this.byKey.next[row];
    }
    return row;
  }

  protected rechain(): void {
    this.#wild.rebin(1);
    this.byKey.rebin(this.byKey.head.length);
    for (let row = this.byAge.head[0]; row !== NONE; row = this.byAge.next[row]) this.#chain(row);
  }

  protected override widened(rows: number): void {
    this.#wild.widen(rows);
  }
}

/** Messages that came before their receive. */
export class UnexpectedMessages extends MatchQueue {
  /** The same keys without the source: for receives from anyone. */
  readonly #byTag = new Chains(64, 64);
  #tagBinOf = new Int32Array(64);

  add(context: number, lo: number, hi: number, source: number, value: number): number {
    const row = this.take(context, lo, hi, source, value);
    this.byAge.append(0, row);
    if (this.binned) this.#chain(row);
    return row;
  }

  #chain(row: number): void {
    const context = this.context[row];
    const lo = this.tagLo[row];
    const hi = this.tagHi[row];
    this.binOf[row] = this.bin(context, lo, hi, this.source[row]);
    this.#tagBinOf[row] = this.bin(context, lo, hi, ANY_SOURCE);
    this.byKey.append(this.binOf[row], row);
    this.#byTag.append(this.#tagBinOf[row], row);
  }

  remove(row: number): void {
    this.byAge.remove(0, row);
    if (this.binned) {
      this.byKey.remove(this.binOf[row], row);
      this.#byTag.remove(this.#tagBinOf[row], row);
    }
    this.give(row);
  }

  /** The oldest message that a receive fits, or -1. */
  find(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): number {
    if (this.count === 0) return NONE;
    const isExact = this.binned && (maskLo & maskHi) === -1;
    const chains = !isExact ? this.byAge : source === ANY_SOURCE ? this.#byTag : this.byKey;
    let row = chains.head[isExact ? this.bin(context, lo, hi, source) : 0];
    while (row !== NONE) {
      if (
        ((this.tagLo[row] ^ lo) & maskLo) === 0 &&
        ((this.tagHi[row] ^ hi) & maskHi) === 0 &&
        this.context[row] === context &&
        (source === ANY_SOURCE || this.source[row] === source)
      ) {
        return row;
      }
      row = chains.next[row];
    }
    return NONE;
  }

  protected rechain(): void {
    this.byKey.rebin(this.byKey.head.length);
    this.#byTag.rebin(this.byKey.head.length);
    for (let row = this.byAge.head[0]; row !== NONE; row = this.byAge.next[row]) this.#chain(row);
  }

  protected override widened(rows: number): void {
    this.#byTag.widen(rows);
    const bins = new Int32Array(rows);
    bins.set(this.#tagBinOf);
    this.#tagBinOf = bins;
  }
}
