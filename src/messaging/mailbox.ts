/**
 * The word by which a worker tells its peers that it sleeps, in memory that they have mapped.
 *
 * ```
 *   word 0   SLEEPS: wake it; FENCED: it sleeps often        word 1   1: it passes barriers for others (ordering.ts)
 *
 *   sender    stores a message ── barrier? ── looks at the word          sleeper   sets the word ── barrier? ── looks for messages
 * ```
 * Both barriers are needed, or each may miss the other. Who goes to sleep has time, so it passes the sender's barrier too (membarrier) and a message costs none. One that
 * sleeps after every message asks senders for theirs instead (FENCED): arming is then a store.
 */

import { type Door, openDoor } from '../native/door.js';
import { TSO } from '../native/ordering.js';
import type { MemoryRegion } from '../verbs/index.js';

const SLEEPS = 1;
const FENCED = 2;
const WORD = 0;
const PASSES_BARRIERS = 1;

export const MAILBOX_BYTES = 64;

function wordsOf(bytes: Uint8Array): Int32Array {
  return new Int32Array(bytes.buffer, bytes.byteOffset, MAILBOX_BYTES >> 2);
}

/** The worker's side. */
export class Mailbox {
  readonly region: MemoryRegion;
  readonly #words: Int32Array;
  /** Where peers map it and barriers can be passed for them. */
  readonly #door: Door | undefined;
  #isFenced = false;
  #sleeps = false;

  constructor(region: MemoryRegion, isMapped: boolean) {
    this.region = region;
    this.#words = wordsOf(region.bytes);
    const door = isMapped ? openDoor() : undefined;
    if (door?.asymmetric) {
      this.#door = door;
      this.#words[PASSES_BARRIERS] = 1;
    }
  }

  /** Peers wake this worker from now on: look for messages before sleeping. @param starved it waits for room, which peers store without a barrier. */
  arm(starved: boolean): void {
    this.#sleeps = true;
    Atomics.store(this.#words, WORD, SLEEPS | FENCED);
    if (!this.#isFenced || starved) this.#door?.addon.barrier();
    this.#isFenced = true;
  }

  disarm(): void {
    this.#sleeps = false;
    Atomics.store(this.#words, WORD, FENCED);
  }

  /** It has not slept for a while. */
  awake(): void {
    if (this.#sleeps || !this.#isFenced) return;
    this.#isFenced = false;
    Atomics.store(this.#words, WORD, 0);
  }
}

/** A peer's mailbox. */
export class PeerMailbox {
  /** Messages may be published by plain stores. */
  readonly isRelaxed: boolean;
  readonly #words: Int32Array;

  constructor(bytes: Uint8Array) {
    this.#words = wordsOf(bytes);
    this.isRelaxed = openDoor().asymmetric && this.#words[PASSES_BARRIERS] === 1;
  }

  get sleeps(): boolean {
    return (this.#words[WORD] & SLEEPS) !== 0;
  }

  /** After publishing: whether the peer must be woken, which is then the caller's to do. */
  mustWake(): boolean {
    return (TSO ? this.#words[WORD] : Atomics.load(this.#words, WORD)) !== 0 && this.#takeSleep();
  }

  #takeSleep(): boolean {
    return (Atomics.and(this.#words, WORD, ~SLEEPS) & SLEEPS) !== 0;
  }
}
