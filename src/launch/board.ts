/**
 * The board: memory that the native thread of a rank and its JavaScript share. The thread writes who is gone, JavaScript writes where it waits;
 * both read by plain atomic loads, so a loop that never returns to the event loop still sees a death. native/liveness.h draws the layout.
 *
 *   word  0 ..    header: magic, version, size, rank, attention, coordinator, settings, reports
 *        16 ..    16 slots of 16 words      a waiting call each: sequence (odd: taken), site, peer, detail
 *       272 ..    64 sites of 32 words      length and text: what a call is called
 *      2320 ..    2048 words                the last stall report
 *      4368 ..    64 words for each rank    state, length and text of the reason
 */

import { closeSync } from 'node:fs';
import { loadAddon } from '../native/load.js';
import { LaunchError } from './errors.js';

const MAGIC = 0x564c4256;
const VERSION = 1;

export const HEADER = {
  attention: 4,
  coordinator: 5,
  stallMs: 6,
  heartbeatMs: 7,
  silenceMs: 8,
  holder: 9,
  reports: 10,
  reportLength: 11,
  end: 12,
} as const;
const SLOTS = 16;
export const SLOT_COUNT = 16;
const SLOT_WORDS = 16;
const SITES = SLOTS + SLOT_COUNT * SLOT_WORDS;
export const SITE_COUNT = 64;
const SITE_WORDS = 32;
const REPORT = SITES + SITE_COUNT * SITE_WORDS;
const REPORT_WORDS = 2048;
const RANKS = REPORT + REPORT_WORDS;
const RANK_WORDS = 64;

/** State word of a rank. */
export const RANK_STATE = { running: 0, left: 1, lost: 2 } as const;

/** Where a board lies, for threads of its process. */
export type BoardPlace = Pick<Board, 'size' | 'address'>;

const bytesOf = (size: number): number => (RANKS + size * RANK_WORDS) * 4;

export class Board {
  readonly size: number;
  readonly address: number;
  readonly words: Int32Array;
  readonly #bytes: Buffer;

  private constructor(size: number, address: number, buffer: ArrayBuffer) {
    this.size = size;
    this.address = address;
    this.words = new Int32Array(buffer);
    this.#bytes = Buffer.from(buffer);
  }

  /** @throws LAUNCH_INVALID when the machine has no memory for it. */
  static make(size: number, rank: number): Board {
    const addon = loadAddon();
    const length = bytesOf(size);
    const fd = addon.create('verbena-board', 0);
    const reserved = fd < 0 ? -fd : addon.reserve(fd, 0, length, -1);
    const mapped = reserved === 0 ? addon.map(fd, 0, length, 1, 0) : reserved;
    if (fd >= 0) closeSync(fd);
    if (typeof mapped === 'number') throw new LaunchError('LAUNCH_INVALID', `no memory for the liveness board: errno ${mapped}`);
    const board = new Board(size, mapped[1], addon.view(mapped[0], 0, length));
    addon.stop(mapped[0]);
    board.words.set([MAGIC, VERSION, size, rank]);
    return board;
  }

  /** The board that another thread of this process made, and keeps meanwhile. */
  static at({ size, address }: BoardPlace): Board {
    return new Board(size, address, loadAddon().viewAt(address, bytesOf(size)));
  }

  /** Index of a rank's state word. */
  stateIndex(rank: number): number {
    return RANKS + rank * RANK_WORDS;
  }

  /**
   * Whether a peer that is silent lives and only computes: then it answers nobody, but the native thread of its rank does. Contexts of rank N are named 'rank N', or 'rank N'
   * and what else they are.
   */
  vouchesFor(peer: string): boolean {
    const rank = Number(/^rank (\d+) /.exec(peer)?.[1] ?? this.size);
    return rank < this.size && Atomics.load(this.words, this.stateIndex(rank)) === RANK_STATE.running;
  }

  /** Why a rank is gone, or ''. */
  reason(rank: number): string {
    const at = this.stateIndex(rank);
    return this.#text(at + 2, Atomics.load(this.words, at + 1));
  }

  get report(): string {
    return this.#text(REPORT, Atomics.load(this.words, HEADER.reportLength));
  }

  slotIndex(slot: number): number {
    return SLOTS + slot * SLOT_WORDS;
  }

  /** Writes what a site is called, cut to 124 bytes. */
  nameSite(site: number, text: string): void {
    const at = SITES + site * SITE_WORDS;
    Atomics.store(this.words, at, 0);
    const length = this.#bytes.write(text, (at + 1) * 4, (SITE_WORDS - 1) * 4);
    Atomics.store(this.words, at, length);
  }

  #text(word: number, length: number): string {
    return this.#bytes.toString('utf8', word * 4, word * 4 + length);
  }
}
