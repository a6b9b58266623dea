/**
 * Where ranks find each other: a small shared table of keys and values. The stores of the launch layer are such tables; tests may use any other.
 */

import { RankLost } from './errors.js';

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
}

/** What rank r said under this key, for every r below `size`. @throws RankLost for a rank that is dead, and what the exchange throws. */
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

async function hear(exchange: Exchange, key: string, rank: number, { timeoutMs, isDead }: Patience): Promise<Uint8Array> {
  if (isDead === undefined) return exchange.wait(key, { timeoutMs });
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline) {
    const said = await exchange.get(key);
    if (said !== undefined) return said;
    if (isDead(rank)) throw new RankLost(rank, 'the exchange of addresses');
    await pause();
  }
  return exchange.wait(key, { timeoutMs: 0 });
}

/** Until one looks into the exchange again: it has no bell. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

export function parse<T>(bytes: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
