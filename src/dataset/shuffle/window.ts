import type { FetchedBlock, ShuffleCounters } from './manager.js';

interface Waiter {
  readonly bytes: number;
  readonly turn: number;
  admit(): void;
}

/**
 * A window of bytes in flight: who wants to fetch enters, who has used what was fetched leaves.
 *
 * Blocks are used in order, so the one whose turn it is enters in any case: otherwise later blocks could fill the window and wait for it for ever.
 */
export class Window {
  readonly #limit: number;
  readonly #waiting: Waiter[] = [];
  #bytes = 0;
  #most = 0;
  #closed = false;
  #turn = 0;

  /** @param limit bytes. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get hasRoom(): boolean {
    return this.#bytes < this.#limit && this.#waiting.length === 0;
  }

  /** The most that was in flight at once. */
  get most(): number {
    return this.#most;
  }

  /** Waits until there is room, or until it is this one's turn. */
  enter(bytes: number, turn: number): Promise<void> | undefined {
    if (turn === this.#turn || (this.#waiting.length === 0 && this.#fits(bytes))) {
      this.#admit(bytes);
      return undefined;
    }
    return new Promise((admit) => this.#waiting.push({ bytes, turn, admit }));
  }

  /** The block that is wanted next. */
  setTurn(turn: number): void {
    this.#turn = turn;
    this.#next();
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
    this.#next();
  }

  /** Nobody reads any more: whoever waits is let through, to find that out. */
  close(): void {
    this.#closed = true;
    this.#next();
  }

  #fits(bytes: number): boolean {
    return this.#closed || this.#bytes === 0 || this.#bytes + bytes <= this.#limit;
  }

  #admit(bytes: number): void {
    this.#bytes += bytes;
    this.#most = Math.max(this.#most, this.#bytes);
  }

  #next(): void {
    for (let i = 0; i < this.#waiting.length; ) {
      const { bytes, turn, admit } = this.#waiting[i];
      if (turn !== this.#turn && !this.#fits(bytes)) {
        i++;
        continue;
      }
      this.#waiting.splice(i, 1);
      this.#admit(bytes);
      admit();
    }
  }
}

/** The blocks of so many maps, in their order. As many are fetched at once as the window has room for, and `most` at the most; `fetch` is called in order. */
export async function* fetchInOrder(
  window: Window,
  maps: number,
  most: number,
  counters: ShuffleCounters,
  signal: AbortSignal | undefined,
  fetch: (map: number) => Promise<FetchedBlock[]>,
): AsyncGenerator<FetchedBlock> {
  const queue: Promise<FetchedBlock[]>[] = [];
  let next = 0;
  try {
    for (let turn = 0; turn < maps; turn++) {
      while (next < maps && queue.length < most && (window.hasRoom || next === turn)) {
        const under = fetch(next++);
        under.catch(() => {}); // it is awaited in its turn
        queue.push(under);
      }
      signal?.throwIfAborted();
      window.setTurn(turn);
      for (const block of (await queue.shift()) ?? []) {
        counters.blocksRead++;
        yield block;
      }
      counters.mostInFlight = Math.max(counters.mostInFlight, window.most);
    }
  } finally {
    window.close();
    // What is under way writes into memory that must not be used again before.
    for (const rest of queue) for (const block of await rest.catch(() => [])) block.release();
  }
}
