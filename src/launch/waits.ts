/**
 * Where this rank waits. A call that may block enters before it waits and leaves afterwards; the native thread reads the slots, so a stall is
 * explained although JavaScript does not run. Entering and leaving are a few stores: no object, no string, once the site is known.
 *
 * ```ts
 * const site = waits.site('receive');            // once
 * const slot = waits.enter(site, source, tag);   // each time: waits for rank `source`
 * ...
 * waits.leave(slot);
 * ```
 */

import { type Board, SITE_COUNT, SLOT_COUNT } from './board.js';

/** As a peer: the call waits for whoever comes, and nobody in particular is missing. */
export const ANYONE = -2;

/** The waits of one process, on the board that its launcher and the other ranks read. */
export class WaitRegistry {
  readonly #board: Board;
  readonly #words: Int32Array;
  readonly #sites = new Map<string, number>();
  #nextSite = 0;

  constructor(board: Board) {
    this.#board = board;
    this.#words = board.words;
  }

  /**
   * The number of a kind of call. Names are cut to 124 bytes. There are 64 numbers; later names take those of the oldest in turn, so a name made anew for each
   * call (a key, a barrier's name) costs nothing but its text.
   */
  site(name: string): number {
    const known = this.#sites.get(name);
    if (known !== undefined) return known;
    const site = this.#nextSite++ % SITE_COUNT;
    for (const [old, number] of this.#sites) if (number === site) this.#sites.delete(old);
    this.#sites.set(name, site);
    this.#board.nameSite(site, name);
    return site;
  }

  /**
   * Says that a call waits. Returns the slot for `leave`, or -1 when 16 calls wait already (then this one is not seen in reports).
   * @param peer the rank it waits for; -1: all of them; ANYONE
   * @param detail a tag or sequence number that tells two calls apart; -1: none
   */
  enter(site: number, peer = -1, detail = -1): number {
    const words = this.#words;
    for (let slot = 0; slot < SLOT_COUNT; slot++) {
      const at = this.#board.slotIndex(slot);
      const sequence = words[at];
      if ((sequence & 1) !== 0) continue;
      words[at + 1] = site;
      words[at + 2] = peer;
      words[at + 3] = detail;
      Atomics.store(words, at, (sequence + 1) | 0);
      return slot;
    }
    return -1;
  }

  /** The call has returned. */
  leave(slot: number): void {
    if (slot < 0) return;
    const at = this.#board.slotIndex(slot);
    Atomics.store(this.#words, at, (this.#words[at] + 1) | 0);
  }
}
