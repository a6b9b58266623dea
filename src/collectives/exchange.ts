/**
 * Where ranks find each other: a small shared table of keys and values. The stores of the launch layer are such tables; tests may use any other.
 */

import { CollectiveError, RankLost } from './errors.js';

export interface Exchange {
  set(key: string, value: string | Uint8Array): Promise<void>;
  /** The value, or undefined. Does not wait. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Waits until the key is there. */
  wait(key: string, options?: { timeoutMs?: number }): Promise<Uint8Array>;
  /** Sets the key to `desired` where it is not there yet; returns what it holds afterwards. */
  compareAndSet(key: string, expected: undefined, desired: string | Uint8Array): Promise<Uint8Array | undefined>;
}

/** How long to wait for the others, and for whom not to wait. */
export interface Patience {
  readonly timeoutMs: number;
  /** Whether the process of a rank has ended. Default: nobody knows. */
  readonly isDead?: (rank: number) => boolean;
  /** Key of how the making of a communicator ends (`conclude`, `giveUp`): who gave up is not waited for. Default: nobody may. */
  readonly outcome?: string;
}

/** What rank r said under this key, for every r below `size`. @throws RankLost for a rank that is dead, COLL_ABORTED when one gave up, COLL_TIMEOUT, and what the exchange throws. */
export async function exchangeAll<T>(
  exchange: Exchange,
  key: string,
  rank: number,
  size: number,
  own: T,
  patience: Patience,
): Promise<T[]> {
  await exchange.set(`${key}/${rank}`, JSON.stringify(own));
  const said: T[] = [];
  for (let r = 0; r < size; r++) said.push(r === rank ? own : parse<T>(await hear(exchange, `${key}/${r}`, r, patience)));
  return said;
}

async function hear(exchange: Exchange, key: string, rank: number, patience: Patience): Promise<Uint8Array> {
  const { timeoutMs, isDead, outcome } = patience;
  for (const deadline = performance.now() + timeoutMs; ; await pause()) {
    const said = await exchange.get(key);
    if (said !== undefined) return said;
    if (isDead?.(rank)) throw new RankLost(rank, 'the exchange of addresses');
    if (outcome !== undefined) checkOutcome(await exchange.get(outcome));
    if (performance.now() > deadline)
      throw new CollectiveError(
        'COLL_TIMEOUT',
        `rank ${rank} did not come within ${timeoutMs} ms: check that it makes '${key}' too`,
      );
  }
}

const MADE = 'made';

/** All ranks have said everything: they have a communicator, unless one of them gave up before. @throws COLL_ABORTED then. */
export async function conclude(exchange: Exchange, outcome: string): Promise<void> {
  checkOutcome(await exchange.compareAndSet(outcome, undefined, MADE));
}

/** This rank gives up; it has come too late for that where another has concluded. */
export async function giveUp(exchange: Exchange, outcome: string, rank: number): Promise<void> {
  await exchange.compareAndSet(outcome, undefined, String(rank));
}

/** @throws COLL_ABORTED when a rank gave up. */
export function checkOutcome(said: Uint8Array | undefined): void {
  const word = said === undefined ? MADE : new TextDecoder().decode(said);
  if (word !== MADE) throw new CollectiveError('COLL_ABORTED', `rank ${word} gave up making the communicator`);
}

/** Until one looks into the exchange again: it has no bell. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

export function parse<T>(bytes: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
