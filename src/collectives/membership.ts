/**
 * Who belongs to a communicator when that changes: the survivors of a loss agree on themselves, newcomers take seats. Everything goes through the exchange, because the
 * communicator itself is broken, or does not reach the newcomers yet.
 */

import { CollectiveError, RankLost } from './errors.js';
import { type Exchange, parse, pause } from './exchange.js';

export interface Survivor {
  readonly rank: number;
  readonly size: number;
  /** Calls that this rank completed. */
  readonly completed: number;
  readonly isDead: (rank: number) => boolean;
  /** Of performance.now. */
  readonly deadline: number;
}

export interface Decision {
  readonly members: readonly number[];
  /** Calls that all of them completed. */
  readonly lastCompleted: number;
}

/**
 * The lowest rank that lives hears everybody who lives and decides. The first decision counts: when the one who decides dies, the next lowest finds the decision or makes one.
 * @throws COLL_TIMEOUT when a living rank does not say anything
 */
export async function decideMembers(exchange: Exchange, name: string, survivor: Survivor): Promise<Decision> {
  const { rank, size, completed, isDead, deadline } = survivor;
  await exchange.set(`${name}/${rank}`, String(completed));
  const key = `${name}/decision`;
  const heard = new Map<number, number>();
  for (;;) {
    const decision = await exchange.get(key);
    if (decision !== undefined) return parse(decision);
    const living = Array.from({ length: size }, (_, r) => r).filter((r) => !isDead(r));
    if (living[0] === rank) {
      for (const r of living) {
        const said = heard.has(r) ? undefined : await exchange.get(`${name}/${r}`);
        if (said !== undefined) heard.set(r, Number(new TextDecoder().decode(said)));
      }
      if (living.every((r) => heard.has(r))) {
        const lastCompleted = Math.min(...living.map((r) => heard.get(r) as number));
        await exchange.compareAndSet(key, undefined, JSON.stringify({ members: living, lastCompleted }));
        continue;
      }
    }
    if (performance.now() > deadline) {
      throw new CollectiveError('COLL_TIMEOUT', 'not all living ranks called shrink() in time');
    }
    await pause();
  }
}

/** How long after a refusal of the operating system a death may become known, ms. */
const DYING_MS = 1000;

/** A process that dies while others map its memory fails them a moment before its death is known: then the loss is what happened. Undefined: nobody died. */
export async function lossBehind(
  error: unknown,
  size: number,
  isDead: ((rank: number) => boolean) | undefined,
): Promise<RankLost | undefined> {
  if (!(error instanceof CollectiveError) || error.code !== 'COLL_SYSTEM' || isDead === undefined) return undefined;
  for (const deadline = performance.now() + DYING_MS; performance.now() < deadline; await pause()) {
    for (let rank = 0; rank < size; rank++) if (isDead(rank)) return new RankLost(rank, 'the making of a communicator');
  }
  return undefined;
}

/** An invitation: seats first .. size - 1 are free. */
export interface Door {
  readonly name: string;
  readonly first: number;
  readonly size: number;
}

const doorOf = (key: string): string => `${key}/door`;

export function openDoor(exchange: Exchange, key: string, door: Door): Promise<void> {
  return exchange.set(doorOf(key), JSON.stringify(door));
}

/** The next free seat of the communicator `key`. @throws COLL_TIMEOUT when there is none in time. */
export async function takeSeat(
  exchange: Exchange,
  key: string,
  timeoutMs: number,
): Promise<{ readonly name: string; readonly rank: number; readonly size: number }> {
  const own = `${process.pid} ${Math.random()} ${performance.timeOrigin}`;
  const deadline = performance.now() + timeoutMs;
  let full = '';
  for (;;) {
    const said = await exchange.get(doorOf(key));
    const door = said === undefined ? undefined : parse<Door>(said);
    if (door !== undefined && door.name !== full) {
      for (let rank = door.first; rank < door.size; rank++) {
        const holder = await exchange.compareAndSet(`${door.name}/seat/${rank}`, undefined, own);
        if (holder !== undefined && new TextDecoder().decode(holder) === own) return { name: door.name, rank, size: door.size };
      }
      full = door.name;
    }
    if (performance.now() > deadline) {
      throw new CollectiveError('COLL_TIMEOUT', `the members of '${key}' did not call grow() with a free seat in time`);
    }
    await pause();
  }
}
