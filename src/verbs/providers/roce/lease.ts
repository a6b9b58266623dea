/**
 * When the program's thread runs the data path itself: it borrows it after many polls in a short time, and loses it when it stops polling.
 *
 *              256 polls within 5 ms                      a command, an armed queue: given back
 *     ENGINE ─────────────────────────────> PROGRAM ──────────────────────────────────────────────> ENGINE
 *              the engine may refuse                     no poll for 1 to 2 ms: the engine takes it back
 *
 * A lease that did not last makes the next one dearer, so that a program that polls in bursts is not handed to and fro.
 */

import type { RoceCounters } from './counters.js';
import type { RoceDevice } from './device.js';
import { InlineEngine } from './inline-engine.js';
import type { EngineData } from './messages.js';
import type { Switchboard } from './switchboard.js';

const POLLS = 256;
const MOST_POLLS = 1 << 20;
const WITHIN_MS = 5;
/** A lease that lasts so long has paid. */
const LASTING_MS = 20;
const NEVER = -1;

export class Lease {
  private readonly device: RoceDevice;
  private readonly data: EngineData;
  private readonly board: Switchboard;
  private engine: InlineEngine | undefined;
  /** The program's thread runs the data path, as far as it knows. */
  isHeld = false;
  private polls = 0;
  private wanted = POLLS;
  private since = 0;
  /** The version of the device's objects among which one cannot be borrowed. */
  private unfitVersion = NEVER;

  constructor(device: RoceDevice, data: EngineData, board: Switchboard) {
    this.device = device;
    this.data = data;
    this.board = board;
  }

  /** What the program's thread has counted. */
  get counters(): RoceCounters | undefined {
    return this.engine?.counted();
  }

  /** The program has polled and found nothing. True when something may have come by that. */
  polled(): boolean {
    if (this.isHeld) return this.turn(NEVER);
    if (++this.polls >= this.wanted) this.consider();
    return false;
  }

  /** As `polled`, without a claim to borrow: who asks may be about to sleep. */
  looked(): void {
    if (this.isHeld) this.turn(NEVER);
  }

  /** Requests were posted. False when the engine has to be told. */
  posted(slot: number): boolean {
    return this.isHeld && this.turn(slot);
  }

  private turn(slot: number): boolean {
    const { board, engine } = this;
    if (engine === undefined || !board.enter()) {
      this.lost();
      return false;
    }
    try {
      if (slot === NEVER) engine.poll();
      else engine.rung(slot);
    } finally {
      board.leave();
    }
    if (engine.news.length > 0 || engine.foreign.length > 0) this.tell(engine);
    return true;
  }

  private tell(engine: InlineEngine): void {
    for (const notice of engine.news.splice(0)) {
      this.device.noticed(notice);
      if (notice.kind === 'invalidated') this.device.call({ kind: 'revoke', key: notice.key });
    }
    for (const packet of engine.foreign.splice(0)) this.device.call({ kind: 'packet', ...packet });
  }

  private consider(): void {
    const at = performance.now();
    this.polls = 0;
    const isQuick = at - this.since < WITHIN_MS * (this.wanted / POLLS);
    this.since = at;
    if (!isQuick || this.device.version === this.unfitVersion) return;
    const objects = this.device.objects();
    if (objects.queuePairs.some(({ record }) => record.type !== 'RC')) {
      this.unfitVersion = this.device.version;
      return;
    }
    const connected = this.device.call({ kind: 'lend' }) as number[] | undefined;
    if (connected === undefined) {
      this.wanted = Math.min(MOST_POLLS, this.wanted * 2);
      return;
    }
    this.engine ??= new InlineEngine(this.data, this.device.door);
    if (!this.board.enter()) return;
    try {
      this.engine.borrow(objects, connected);
    } finally {
      this.board.leave();
    }
    this.isHeld = true;
    this.since = at;
  }

  /** The engine is needed, by a command or because the program is going to sleep. The caller wakes it. True when it was lent. */
  end(): boolean {
    if (!this.isHeld) return false;
    this.board.giveBack();
    this.lost();
    return true;
  }

  /** The program sleeps soon: polls before do not count. */
  forget(): void {
    this.polls = 0;
  }

  private lost(): void {
    const at = performance.now();
    const lasted = at - this.since;
    this.wanted = lasted >= LASTING_MS ? POLLS : Math.min(MOST_POLLS, this.wanted * 2);
    this.isHeld = false;
    this.polls = 0;
    this.since = at;
  }
}
