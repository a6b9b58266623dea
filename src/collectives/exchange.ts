/**
 * Where ranks find each other: a small shared table of keys and values. The stores of the launch layer are such tables; tests may use any other.
 */

export interface Exchange {
  set(key: string, value: string | Uint8Array): Promise<void>;
  /** The value, or undefined. Does not wait. */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Waits until the key is there. */
  wait(key: string, options?: { timeoutMs?: number }): Promise<Uint8Array>;
  /** Sets the key to `desired` where it is not there yet; returns what it holds afterwards. */
  compareAndSet(key: string, expected: undefined, desired: string | Uint8Array): Promise<Uint8Array | undefined>;
}

/** What rank r said under this key, for every r below `size`. */
export async function exchangeAll<T>(
  exchange: Exchange,
  key: string,
  rank: number,
  size: number,
  own: T,
  timeoutMs: number,
): Promise<T[]> {
  await exchange.set(`${key}/${rank}`, JSON.stringify(own));
  const said: T[] = [];
  for (let r = 0; r < size; r++) said.push(r === rank ? own : parse<T>(await exchange.wait(`${key}/${r}`, { timeoutMs })));
  return said;
}

export function parse<T>(bytes: Uint8Array): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
