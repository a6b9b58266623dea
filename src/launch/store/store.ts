/**
 * The rendezvous store: a small shared table of keys and bytes through which ranks find each other before they have anything faster.
 *
 * Two implementations: over TCP to the coordinator (tcp-store.ts), and files of one host (file-store.ts). It is for wire-up and control, not
 * for data: every value goes through one process, and its memory is bounded.
 */

/** How long an operation may wait. */
export interface WaitOptions {
  /** Milliseconds; 0 asks without waiting. Default 60,000. */
  timeoutMs?: number;
  /** Gives up with the signal's reason; who has arrived at a barrier counts as there all the same. Default: none. */
  signal?: AbortSignal;
}

export interface BarrierOptions extends WaitOptions {
  /** How many have to arrive. Default: all ranks of the world. A name may be used again once everybody has passed. */
  count?: number;
}

export interface Store {
  /** Sets a key. Text is stored as UTF-8. @throws LAUNCH_FULL at the memory bound, LAUNCH_INVALID for a key over 1 KiB. */
  set(key: string, value: string | Uint8Array): Promise<void>;
  /** The value, or undefined. Does not wait. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Waits until the key is there. @throws LAUNCH_TIMEOUT with the key. */
  wait(key: string, options?: WaitOptions): Promise<Uint8Array>;
  /** Adds to a whole number kept as decimal text, starting at 0; returns the sum. @throws LAUNCH_INVALID where the value is no number. */
  add(key: string, amount: number): Promise<number>;
  /**
   * Sets the key to `desired` where it is `expected` (undefined: where it is not there). Returns what the key holds afterwards: equal to
   * `desired` when it was set, undefined where there is no such key.
   */
  compareAndSet(
    key: string,
    expected: string | Uint8Array | undefined,
    desired: string | Uint8Array,
  ): Promise<Uint8Array | undefined>;
  /** Removes a key; returns whether it was there. */
  delete(key: string): Promise<boolean>;
  /** Waits until `count` callers have arrived. @throws LAUNCH_TIMEOUT naming who is missing, LAUNCH_RANK_LOST when a rank died meanwhile. */
  barrier(name: string, options?: BarrierOptions): Promise<void>;
  /** Lets go; waiting calls fail with LAUNCH_CLOSED. Idempotent. */
  close(): void;
  [Symbol.dispose](): void;
}

export const DEFAULT_TIMEOUT_MS = 60_000;
/** Bytes. */
export const MAX_KEY_BYTES = 1024;
/** Bytes. */
export const MAX_VALUE_BYTES = 16 << 20;

/** Bytes of a value that may be text. */
export function bytesOf(value: string | Uint8Array): Uint8Array {
  return typeof value === 'string' ? Buffer.from(value) : value;
}
