/**
 * Who belongs to a communicator when that changes: the survivors of a loss agree on themselves, newcomers stand in line until the members let them in. Everything goes through
 * the exchange, because the communicator itself is broken, or does not reach the newcomers yet.
 */

import { CollectiveError, RankLost } from './errors.js';
import { type Exchange, parse, pause } from './exchange.js';
import { hostIdentity } from './shared-memory/executor.js';

export interface Survivor {
  readonly rank: number;
  readonly size: number;
  /** Calls that this rank completed. */
  readonly completed: number;
  readonly isDead: (rank: number) => boolean;
  /** Of performance.now. */
  readonly deadline: number;
  /** Of performance.now: from then on who has said nothing does not count. */
  readonly silentAfter: number;
}

export interface Decision {
  readonly members: readonly number[];
  /** Calls that all of them completed. */
  readonly lastCompleted: number;
}

/**
 * The lowest rank that lives hears everybody who lives and decides. The first decision counts: when the one who decides dies, the next lowest finds the decision or makes one.
 * Who lives but says nothing until `silentAfter` is left out: then the lowest that spoke decides.
 * @throws COLL_TIMEOUT when a living rank does not say anything
 */
export async function decideMembers(exchange: Exchange, name: string, survivor: Survivor): Promise<Decision> {
  const { rank, size, completed, isDead, deadline, silentAfter } = survivor;
  await exchange.set(`${name}/${rank}`, String(completed));
  const key = `${name}/decision`;
  const heard = new Map<number, number>();
  for (;;) {
    const decision = await exchange.get(key);
    if (decision !== undefined) return parse(decision);
    const living = Array.from({ length: size }, (_, r) => r).filter((r) => !isDead(r));
    const isLate = performance.now() > silentAfter;
    if (living[0] === rank || isLate) {
      for (const r of living) {
        const said = heard.has(r) ? undefined : await exchange.get(`${name}/${r}`);
        if (said !== undefined) heard.set(r, Number(new TextDecoder().decode(said)));
      }
      const members = isLate ? living.filter((r) => heard.has(r)) : living;
      if (members[0] === rank && members.every((r) => heard.has(r))) {
        const lastCompleted = Math.min(...members.map((r) => heard.get(r) as number));
        await exchange.compareAndSet(key, undefined, JSON.stringify({ members, lastCompleted }));
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
const DYING_MS = 2000;

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

/** What a newcomer says of itself. */
interface Newcomer {
  readonly host: string;
  readonly pid: number;
  readonly nonce: number;
}

/** What it is answered: the communicator `name` has a rank for it. Null: it gave up before. */
interface Admission {
  readonly name: string;
  readonly rank: number;
  readonly size: number;
  /** How long the members wait for it, ms. */
  readonly timeoutMs: number;
}

const newcomerKey = (key: string, place: number): string => `${key}/newcomer/${place}`;
const admittedKey = (key: string, place: number): string => `${key}/admitted/${place}`;

/** Places in the line before the communicator `key` whose newcomers live and have no answer. */
export async function lineBefore(exchange: Exchange, key: string): Promise<number[]> {
  const places: number[] = [];
  for (let place = 0; ; place++) {
    const said = await exchange.get(newcomerKey(key, place));
    if (said === undefined) return places;
    const answer = await exchange.get(admittedKey(key, place));
    if (answer === undefined && isRunning(parse<Newcomer>(said))) places.push(place);
  }
}

/** Lets `size - first` newcomers in, as ranks first .. size - 1 of `name`. False: there were not so many in time, and nobody was let in. */
export async function admit(
  exchange: Exchange,
  key: string,
  { name, first, size }: { readonly name: string; readonly first: number; readonly size: number },
  timeoutMs: number,
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  let places = await lineBefore(exchange, key);
  while (places.length < size - first) {
    if (performance.now() > deadline) return false;
    await pause();
    places = await lineBefore(exchange, key);
  }
  for (let rank = first; rank < size; rank++) {
    const admission: Admission = { name, rank, size, timeoutMs };
    await exchange.compareAndSet(admittedKey(key, places[rank - first]), undefined, JSON.stringify(admission));
  }
  return true;
}

/** Takes a place in the line before `key` and waits to be let in. @throws COLL_TIMEOUT when that does not happen in time, the signal's reason. */
export async function standInLine(
  exchange: Exchange,
  key: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Admission> {
  const own = JSON.stringify({ host: hostIdentity(), pid: process.pid, nonce: Math.random() } satisfies Newcomer);
  let place = 0;
  const isTaken = (said: Uint8Array | undefined) => said === undefined || new TextDecoder().decode(said) !== own;
  while (isTaken(await exchange.compareAndSet(newcomerKey(key, place), undefined, own))) place++;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const late = signal?.aborted || performance.now() > deadline;
    const said = late
      ? await exchange.compareAndSet(admittedKey(key, place), undefined, 'null')
      : await exchange.get(admittedKey(key, place));
    const admission = said === undefined ? null : parse<Admission | null>(said);
    if (admission !== null) return admission;
    signal?.throwIfAborted();
    if (late)
      throw new CollectiveError(
        'COLL_TIMEOUT',
        `the members of '${key}' let nobody in for ${Math.round(timeoutMs)} ms: they call grow()`,
      );
    await pause();
  }
}

/** Of another host nobody here knows: then the wait for it has an end. */
function isRunning({ host, pid }: Newcomer): boolean {
  if (host !== hostIdentity()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
