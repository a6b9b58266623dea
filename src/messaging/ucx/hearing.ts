/**
 * Whether a worker still hears the peers of its host. They all write into one queue of UCX's shared memory: who is killed between taking a place in it and filling it leaves a place
 * that is never filled, and nothing behind that is ever read. So after such a death a second worker of this process says a word to the first: a worker that does not hear it is deaf.
 */

import type { UcxFabric } from './fabric.js';
import { Rings } from './rings.js';
import { ECHO, W_KIND } from './wire.js';
import type { UcxWorker } from './worker.js';

export class UcxHearing {
  /** The worker will hear no peer of this host again. */
  isDeaf = false;
  readonly #worker: UcxWorker;
  readonly #fabric: UcxFabric;
  readonly #looks: number;
  #isInDoubt = false;
  #voice: Rings | undefined;
  #silentLooks = 0;

  /** @param looks as many looks without an answer show that the worker is deaf */
  constructor(worker: UcxWorker, fabric: UcxFabric, looks: number) {
    this.#worker = worker;
    this.#fabric = fabric;
    this.#looks = looks;
  }

  /** A peer died. */
  doubt(): void {
    this.#isInDoubt = !this.isDeaf;
  }

  /** To be called now and then. Returns whether the worker was just found to be deaf. */
  look(): boolean {
    if (this.#voice === undefined) {
      if (this.#isInDoubt) this.#speak();
      return false;
    }
    this.#voice.progress();
    this.#worker.poll(); // what came while this thread was busy counts
    if (this.#voice === undefined || ++this.#silentLooks < this.#looks) return false;
    this.hush();
    this.#isInDoubt = false;
    this.isDeaf = true;
    return true;
  }

  #speak(): void {
    const { addon, context } = this.#fabric;
    let voice: Rings;
    try {
      voice = new Rings(addon, context, () => {});
    } catch {
      return; // no memory for it now: at the next look
    }
    this.#isInDoubt = false;
    this.#silentLooks = 0;
    this.#voice = voice;
    const way = addon.connect(voice.native.handle, this.#worker.rings.native.address, 0);
    voice.header[W_KIND] = ECHO;
    voice.sendInline(way, 0, 0);
  }

  /** The word was heard, or nobody listens any more. */
  hush(): void {
    if (this.#voice !== undefined) this.#fabric.addon.workerClose(this.#voice.native.handle);
    this.#voice = undefined;
  }
}
