/**
 * Which entry a key has: numbers 0, 1, 2, ... in the order in which keys came. What belongs to the entries is kept by whoever has the table, in arrays.
 *
 *   slots   hash, entry + 1 | hash, entry + 1 | 0, 0 | ...        open addressing, at most half full
 *
 * In place of a Map, because a Map takes two to three times as long to find a string that it has not seen as the same object: rows bring new ones all the time.
 */

import { hashIdentity } from './hash.js';

export class KeyTable {
  #identities: unknown[] = [];
  #slots = new Int32Array(128);
  #mask = 63;

  get size(): number {
    return this.#identities.length;
  }

  /** The entry of a key's identity (see identityOf); below 0 where there is none. */
  find(identity: unknown): number {
    return this.#slots[this.#slotOf(identity, hashIdentity(identity)) + 1] - 1;
  }

  /** The entry of an identity; a new one, the last, where there was none. */
  entryOf(identity: unknown): number {
    const hash = hashIdentity(identity);
    let slot = this.#slotOf(identity, hash);
    const entry = this.#slots[slot + 1] - 1;
    if (entry >= 0) return entry;
    if (this.#identities.length * 2 > this.#mask) {
      this.#grow();
      slot = this.#slotOf(identity, hash);
    }
    this.#slots[slot] = hash;
    this.#slots[slot + 1] = this.#identities.push(identity);
    return this.#identities.length - 1;
  }

  /** Where an identity is, or would be. */
  #slotOf(identity: unknown, hash: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    const identities = this.#identities;
    const isText = typeof identity === 'string';
    // Partitions are chosen by the low part of the hash, so all keys here may have the same.
    for (let i = hash ^ (hash >>> 15); ; i++) {
      const slot = (i & mask) * 2;
      const entry = slots[slot + 1];
      if (entry === 0) return slot;
      if (slots[slot] !== hash) continue;
      // Comparing is far faster where it has only ever seen text.
      if (isText ? isSameText(identities[entry - 1], identity) : isSame(identities[entry - 1], identity)) return slot;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Int32Array(old.length * 2);
    this.#mask = this.#mask * 2 + 1;
    for (let slot = 0; slot < old.length; slot += 2) {
      if (old[slot + 1] === 0) continue;
      let i = old[slot] ^ (old[slot] >>> 15);
      while (this.#slots[(i & this.#mask) * 2 + 1] !== 0) i++;
      this.#slots[(i & this.#mask) * 2] = old[slot];
      this.#slots[(i & this.#mask) * 2 + 1] = old[slot + 1];
    }
  }
}

function isSameText(a: unknown, b: string): boolean {
  return typeof a === 'string' && a === b;
}

/** As a Map compares: NaN is NaN, and 0 is -0. */
function isSame(a: unknown, b: unknown): boolean {
  return a === b || (Number.isNaN(a) && Number.isNaN(b));
}
