/**
 * What is going to happen, in order of time: a wheel with one slot for every nanosecond of the near future, and a heap for the rest.
 *
 *     slots    [ . . a→b . . . c . . ]     one list a nanosecond, in the order of scheduling, so a run is the same every time
 *                ^ base                    slot = time mod SLOTS: the wheel holds the times in [base, base + SLOTS)
 *     levels   a bit a slot, a bit a word of those, a bit a word of those: the next slot in use is three looks away
 *     far      what is later, taken over as soon as `base` has moved near enough, before anything else can be scheduled there
 *
 * Scheduling and taking cost the same however much is under way, and make no objects.
 */

import { EventQueue } from '../../transport/event-queue.js';

const BITS = 5;
const SLOTS = 1 << (3 * BITS);
const MASK = SLOTS - 1;
const NONE = -1;

/** The lowest bit that is set. */
const lowest = (word: number): number => 31 - Math.clz32(word & -word);

export class TimeWheel<T> {
  /** Time of the next item, an integer; Infinity when there is none. */
  nextTime = Number.POSITIVE_INFINITY;
  size = 0;
  private base = 0;
  private readonly far = new EventQueue<T>();
  /** The last node of every slot, whose `after` is the first one; 0: empty. */
  private readonly last = new Int32Array(SLOTS);
  private readonly used = new Int32Array(SLOTS >> BITS);
  private readonly usedWords = new Int32Array(SLOTS >> (2 * BITS));
  private usedTop = 0;
  private readonly items: (T | undefined)[] = [undefined];
  private readonly after: number[] = [0];
  /** Nodes that are not in use, as a list. */
  private free = 0;

  /** Nothing may be scheduled before what was taken last: an earlier time counts as that. A fraction counts as the next nanosecond. */
  push(time: number, item: T): void {
    const at = Math.max(Math.ceil(time), this.base);
    this.size++;
    if (at < this.nextTime) this.nextTime = at;
    if (at - this.base < SLOTS) this.put(at & MASK, item);
    else this.far.push(at, item);
  }

  /** Takes the next item. The wheel must not be empty. */
  pop(): T {
    const time = this.nextTime;
    this.base = time;
    while (this.far.nextTime - time < SLOTS) this.put(this.far.nextTime & MASK, this.far.pop());
    const slot = time & MASK;
    const tail = this.last[slot];
    const node = this.after[tail];
    const item = this.items[node] as T;
    this.items[node] = undefined;
    this.size--;
    if (node === tail) {
      this.clear(slot);
      const next = this.nextSlot(slot);
      this.nextTime = next === NONE ? this.far.nextTime : time + ((next - slot) & MASK);
    } else {
      this.after[tail] = this.after[node];
    }
    this.after[node] = this.free;
    this.free = node;
    return item;
  }

  private put(slot: number, item: T): void {
    let node = this.free;
    if (node === 0) {
      node = this.items.length;
      this.items.push(item);
      this.after.push(0);
    } else {
      this.free = this.after[node];
      this.items[node] = item;
    }
    const tail = this.last[slot];
    this.last[slot] = node;
    if (tail !== 0) {
      this.after[node] = this.after[tail];
      this.after[tail] = node;
      return;
    }
    this.after[node] = node;
    this.used[slot >> BITS] |= 1 << (slot & 31);
    this.usedWords[slot >> (2 * BITS)] |= 1 << ((slot >> BITS) & 31);
    this.usedTop |= 1 << (slot >> (2 * BITS));
  }

  private clear(slot: number): void {
    const word = slot >> BITS;
    const group = word >> BITS;
    this.last[slot] = 0;
    this.used[word] &= ~(1 << (slot & 31));
    if (this.used[word] !== 0) return;
    this.usedWords[group] &= ~(1 << (word & 31));
    if (this.usedWords[group] === 0) this.usedTop &= ~(1 << group);
  }

  /** The first slot in use after `slot`, going round, or `NONE`. */
  private nextSlot(slot: number): number {
    if (this.usedTop === 0) return NONE;
    const word = slot >> BITS;
    const rest = this.used[word] & (-2 << (slot & 31));
    if (rest !== 0) return (word << BITS) + lowest(rest);
    const group = word >> BITS;
    const words = this.usedWords[group] & (-2 << (word & 31));
    if (words !== 0) return this.firstOf((group << BITS) + lowest(words));
    const groups = this.usedTop & (-2 << group);
    const next = lowest(groups !== 0 ? groups : this.usedTop);
    return this.firstOf((next << BITS) + lowest(this.usedWords[next]));
  }

  private firstOf(word: number): number {
    return (word << BITS) + lowest(this.used[word]);
  }
}
