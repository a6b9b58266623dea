/**
 * Progress on UCX: one call of the addon flushes, works and reaps. A worker is also woken when nobody waits, because peers may connect at any time: when the
 * event loop turns idle, UCX's descriptor is watched.
 */

import type { Progress } from '../engine.js';
import type { UcxAddon } from './addon.js';
import { EVENT_DONE, EVENT_FAILED, EVENT_MESSAGE, Rings } from './rings.js';
import type { UcxWorker } from './worker.js';

/** How often a worker looks by itself, milliseconds: UCX's TCP does not wake who has no connection yet. */
const LOOK_MS = 20;

/** After how many polls that found nothing peers are looked after. */
const IDLE_POLLS = 4096;

export class UcxPoller implements Progress {
  isPolling = false;
  readonly rings: Rings;
  readonly #worker: UcxWorker;
  readonly #addon: UcxAddon;
  readonly #heartbeat: NodeJS.Timeout;
  #isWatched = false;
  #idlePolls = 0;
  #bedtime: NodeJS.Immediate | undefined;
  #wake: (() => void) | undefined;
  #isClosed = false;

  /** Throws the number of a ucs_status_t. */
  constructor(worker: UcxWorker, addon: UcxAddon, context: number) {
    this.#worker = worker;
    this.#addon = addon;
    this.rings = new Rings(addon, context, () => this.#woke());
    this.#heartbeat = setInterval(() => this.poll(), LOOK_MS).unref();
    this.#watch();
  }

  poll(): number {
    if (this.isPolling || this.#isClosed) return 0;
    this.isPolling = true;
    try {
      const { rings } = this;
      let n = rings.progress();
      if (rings.events > 0) n += this.#read();
      if (n > 0) {
        this.#isWatched = false; // what was worked off took the watch with it
        this.#rouse();
        this.#idlePolls = 0;
      } else if (++this.#idlePolls % IDLE_POLLS === 0) this.#worker.connections.attend();
      return n + this.#worker.advance();
    } finally {
      this.isPolling = false;
      if (!this.#isWatched && this.#bedtime === undefined) this.#watch();
    }
  }

  #read(): number {
    const { rings } = this;
    const { e32, e64, eventBytes } = rings;
    const worker = this.#worker;
    let at = 0;
    let n = 0;
    // A handler that throws must not see its message twice.
    try {
      while (at < rings.events) {
        const word = at >> 2;
        at += e32[word + 1];
        n++;
        switch (e32[word]) {
          case EVENT_MESSAGE:
            if (!worker.tags.takeSmall(e32, word)) worker.message(e32, e64, eventBytes, word);
            break;
          case EVENT_DONE:
            worker.done(e32[word + 2], e32[word + 3], e32, word + 4);
            break;
          case EVENT_FAILED:
            worker.connections.wayFailed(e32[word + 2], worker.fabric.words(e32[word + 3]));
        }
      }
    } finally {
      rings.consumed(at);
    }
    return n;
  }

  // ---- sleeping ----

  /** When the event loop turns idle, UCX's descriptor is watched. */
  #watch(): void {
    if (this.#isClosed) return;
    if (this.#bedtime === undefined) this.#bedtime = setImmediate(this.#sleep).unref();
    if (this.#wake !== undefined) this.#bedtime.ref();
  }

  readonly #sleep = (): void => {
    this.#bedtime = undefined;
    if (this.#isClosed || this.#isWatched) return;
    if (this.poll() === 0 && this.#addon.workerSleep(this.rings.native.handle) === 1) {
      this.#isWatched = true;
      clearImmediate(this.#bedtime);
      this.#bedtime = undefined;
      return;
    }
    this.#rouse();
    this.#watch();
  };

  #woke(): void {
    this.#isWatched = false;
    this.poll();
    this.#rouse();
  }

  #rouse(): void {
    const wake = this.#wake;
    if (wake === undefined) return;
    this.#wake = undefined;
    this.#addon.workerHold(this.rings.native.handle, 0);
    wake();
  }

  arm(): boolean {
    return this.poll() === 0;
  }

  kick(): void {
    this.poll();
    this.#rouse();
  }

  disarm(): void {}

  asleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#addon.workerHold(this.rings.native.handle, 1);
      if (!this.#isWatched) this.#watch();
    });
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#heartbeat);
    clearImmediate(this.#bedtime);
    this.#rouse();
    this.#addon.workerClose(this.rings.native.handle);
  }
}
