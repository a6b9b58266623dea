/**
 * Queues for tag matching: posted receives, and messages that came before their receive. Matching order is MPI's: a message takes the oldest receive
 * that fits, a receive takes the oldest message that fits.
 *
 * ```
 *   by age    end <-> oldest <-> entry <-> newest <-> end            what wildcards walk; `end` is an entry that stands for none
 *   by key    bin[hash(context, tag, source)] -> entry -> entry      what exact ones walk: a few entries, however long the queue is
 * ```
 * A short queue is walked by age and has no bins: they are filled when it grows beyond a few entries. The oldest entry is tried first, because most
 * programs receive in the order of sending. Adding and removing allocates nothing: entries belong to who adds them. An entry with a mask (or, in the queue of messages, nothing) stands only in the list by age. A posted receive from any
 * source is keyed with ANY, so an arrival looks into two bins and into the list of wildcards. Bins double when there are twice as many entries.
 */

/** Source of a receive that takes messages from everyone. */
export const ANY_SOURCE = -1;

/** Up to here a walk is faster than hashing. */
const SHORT = 64;
const LEAST_BINS = 64;

/** A place in a chain. */
class Link {
  readonly entry: MatchEntry;
  bin = 0;
  next: Link | undefined;
  before: Link | undefined;

  constructor(entry: MatchEntry) {
    this.entry = entry;
  }
}

/** A context, a tag and a source. */
export class MatchEntry {
  context = 0;
  tagLo = 0;
  tagHi = 0;
  maskLo = -1;
  maskHi = -1;
  source: number = ANY_SOURCE;
  isQueued = false;
  age = 0;
  next: this = this;
  before: this = this;
  readonly byKey = new Link(this);
  readonly aside = new Link(this);

  isOlder(than: MatchEntry): boolean {
    return ((this.age - than.age) | 0) < 0;
  }
}

function hash(context: number, lo: number, hi: number, source: number): number {
  let h = Math.imul(lo ^ Math.imul(hi, 0x9e3779b1), 0x85ebca6b) ^ Math.imul(context + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15) ^ Math.imul(source + 2, 0x27d4eb2f), 0x165667b1);
  return h ^ (h >>> 13);
}

/** Chains of entries: one per bin, in the order of adding. */
class Chains {
  head: (Link | undefined)[] = [];
  #tail: (Link | undefined)[] = [];

  constructor(bins: number) {
    this.reset(bins);
  }

  append(bin: number, link: Link): void {
    const last = this.#tail[bin];
    link.bin = bin;
    link.next = undefined;
    link.before = last;
    if (last === undefined) this.head[bin] = link;
    else last.next = link;
    this.#tail[bin] = link;
  }

  remove({ bin, next, before }: Link): void {
    if (before === undefined) this.head[bin] = next;
    else before.next = next;
    if (next === undefined) this.#tail[bin] = before;
    else next.before = before;
  }

  /** Empties them. */
  reset(bins: number): void {
    if (this.head.length !== bins) {
      this.head = new Array<Link | undefined>(bins);
      this.#tail = new Array<Link | undefined>(bins);
    }
    this.head.fill(undefined);
    this.#tail.fill(undefined);
  }
}

/** Entries with a context, a tag and a source, kept by age and by key. */
abstract class MatchQueue<E extends MatchEntry> {
  count = 0;
  /** Behind the newest and before the oldest entry. */
  readonly end: E;
  protected readonly byKey = new Chains(LEAST_BINS);
  /** Whether the entries are in bins. */
  protected binned = false;
  #clock = 0;

  /** @param end an entry that stands for none. */
  constructor(end: E) {
    this.end = end;
  }

  /** Puts an entry into its bins, and takes it out of them. */
  protected abstract chain(entry: E): void;
  protected abstract unchain(entry: E): void;
  /** Empties the bins beside those by key. */
  protected abstract resetAside(bins: number): void;

  /** The oldest entry, or `end`; the one added after an entry is its `next`. */
  get oldest(): E {
    return this.end.next;
  }

  /** Adds an entry, which is in no queue. */
  add(entry: E): void {
    const { end } = this;
    const newest = end.before;
    this.#clock = (this.#clock + 1) | 0;
    entry.age = this.#clock;
    entry.isQueued = true;
    entry.before = newest;
    entry.next = end;
    newest.next = entry;
    end.before = entry;
    if (++this.count > SHORT || this.binned) this.#bin(entry);
  }

  remove(entry: E): void {
    if (this.binned) this.unchain(entry);
    const { next, before } = entry;
    before.next = next;
    next.before = before;
    entry.isQueued = false;
    if (--this.count <= SHORT >> 1) this.binned = false;
  }

  protected binOf(context: number, lo: number, hi: number, source: number): number {
    return hash(context, lo, hi, source) & (this.byKey.head.length - 1);
  }

  /** An entry was added to a long queue: it goes into its bins, or all do. */
  #bin(entry: E): void {
    const bins = this.byKey.head.length;
    if (this.binned && this.count <= bins * 2) {
      this.chain(entry);
      return;
    }
    const wider = this.count > bins * 2 ? bins * 4 : bins;
    this.binned = true;
    this.byKey.reset(wider);
    this.resetAside(wider);
    for (let each = this.oldest; each !== this.end; each = each.next) this.chain(each);
  }
}

/** Receives that wait for a message. */
export class PostedReceives<E extends MatchEntry> extends MatchQueue<E> {
  /** Receives with a mask: in the order of posting. */
  readonly #wild = new Chains(1);

  protected chain(entry: E): void {
    const { context, tagLo, tagHi, maskLo, maskHi, source } = entry;
    if ((maskLo & maskHi) === -1) this.byKey.append(this.binOf(context, tagLo, tagHi, source), entry.byKey);
    else this.#wild.append(0, entry.aside);
  }

  protected unchain(entry: E): void {
    if ((entry.maskLo & entry.maskHi) === -1) this.byKey.remove(entry.byKey);
    else this.#wild.remove(entry.aside);
  }

  protected resetAside(): void {
    this.#wild.reset(1);
  }

  #fits(entry: MatchEntry, context: number, lo: number, hi: number, source: number): boolean {
    const from = entry.source;
    return (
      ((entry.tagLo ^ lo) & entry.maskLo) === 0 &&
      ((entry.tagHi ^ hi) & entry.maskHi) === 0 &&
      entry.context === context &&
      (from === ANY_SOURCE || from === source)
    );
  }

  /** The oldest receive that a message fits, or `end`. */
  find(context: number, lo: number, hi: number, source: number): E {
    const { oldest } = this;
    const isFirst = oldest === this.end || this.#fits(oldest, context, lo, hi, source);
    return isFirst ? oldest : this.#search(context, lo, hi, source);
  }

  /** The same behind the oldest. */
  #search(context: number, lo: number, hi: number, source: number): E {
    const { end } = this;
    if (!this.binned) {
      let entry = this.oldest.next;
      while (entry !== end && !this.#fits(entry, context, lo, hi, source)) entry = entry.next;
      return entry;
    }
    let best = this.#first(context, lo, hi, source);
    const any = this.#first(context, lo, hi, ANY_SOURCE);
    if (any !== undefined && (best === undefined || any.isOlder(best))) best = any;
    for (let link = this.#wild.head[0]; link !== undefined; link = link.next) {
      if (best?.isOlder(link.entry)) break;
      if (this.#fits(link.entry, context, lo, hi, source)) return link.entry as E;
    }
    return best ?? end;
  }

  #first(context: number, lo: number, hi: number, source: number): E | undefined {
    for (let link = this.byKey.head[this.binOf(context, lo, hi, source)]; link !== undefined; link = link.next) {
      const { entry } = link;
      if (entry.tagLo === lo && entry.tagHi === hi && entry.source === source && entry.context === context) return entry as E;
    }
    return undefined;
  }
}

/** A message that came before its receive. */
export class UnexpectedEntry extends MatchEntry {
  /** What it stands for: the engine's number of it. */
  kept = 0;
}

/** Messages that came before their receive. */
export class UnexpectedMessages extends MatchQueue<UnexpectedEntry> {
  /** The same keys without the source: for receives from anyone. */
  readonly #byTag = new Chains(LEAST_BINS);
  readonly #spare: UnexpectedEntry[] = [];

  constructor() {
    super(new UnexpectedEntry());
  }

  keep(context: number, lo: number, hi: number, source: number, kept: number): void {
    const entry = this.#spare.pop() ?? new UnexpectedEntry();
    entry.context = context;
    entry.tagLo = lo;
    entry.tagHi = hi;
    entry.source = source;
    entry.kept = kept;
    this.add(entry);
  }

  /** Takes a message out; returns the engine's number of it. */
  take(entry: UnexpectedEntry): number {
    this.remove(entry);
    this.#spare.push(entry);
    return entry.kept;
  }

  protected chain(entry: UnexpectedEntry): void {
    const { context, tagLo, tagHi, source } = entry;
    this.byKey.append(this.binOf(context, tagLo, tagHi, source), entry.byKey);
    this.#byTag.append(this.binOf(context, tagLo, tagHi, ANY_SOURCE), entry.aside);
  }

  protected unchain(entry: UnexpectedEntry): void {
    this.byKey.remove(entry.byKey);
    this.#byTag.remove(entry.aside);
  }

  protected resetAside(bins: number): void {
    this.#byTag.reset(bins);
  }

  /** The oldest message that a receive fits, or undefined. */
  find(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): UnexpectedEntry | undefined {
    const isAnyone = source === ANY_SOURCE;
    if (this.binned && (maskLo & maskHi) === -1) {
      const chains = isAnyone ? this.#byTag : this.byKey;
      for (let link = chains.head[this.binOf(context, lo, hi, source)]; link !== undefined; link = link.next) {
        const { entry } = link;
        const isSame = entry.tagLo === lo && entry.tagHi === hi && entry.context === context;
        if (isSame && (isAnyone || entry.source === source)) return entry as UnexpectedEntry;
      }
      return undefined;
    }
    for (let entry = this.oldest; entry !== this.end; entry = entry.next) {
      if (
        ((entry.tagLo ^ lo) & maskLo) === 0 &&
        ((entry.tagHi ^ hi) & maskHi) === 0 &&
        entry.context === context &&
        (isAnyone || entry.source === source)
      ) {
        return entry;
      }
    }
    return undefined;
  }
}
