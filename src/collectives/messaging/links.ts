/**
 * The way to every other rank: a worker and an endpoint each. Ranks of one host may have a worker of their own for each other, on shared memory, beside the
 * one that reaches everybody.
 *
 * All pairs are joined when a communicator is made: later, a rank that waits in a synchronous call could not answer. The lower rank connects, the higher
 * one finds the connection.
 */

import type { Endpoint, Worker } from '../../messaging/index.js';
import { CollectiveError, RankLost } from '../errors.js';
import { type Exchange, exchangeAll, type Patience } from '../exchange.js';

export interface Link {
  readonly worker: Worker;
  readonly endpoint: Endpoint;
  /** Inside the host, on shared memory. */
  readonly near: boolean;
}

export interface LinkWorkers {
  /** Reaches every rank. */
  readonly worker: Worker;
  /** For ranks with the same `home`. Default: none; `worker` reaches them too. */
  readonly near?: { readonly worker: Worker; readonly home: string };
}

interface Said {
  readonly address: string;
  readonly near?: { readonly address: string; readonly home: string };
}

/** By rank; undefined for oneself. All ranks call it. @throws RankLost, COLL_SYSTEM when a rank cannot be reached. */
export async function connectLinks(
  rank: number,
  size: number,
  exchange: Exchange,
  key: string,
  { worker, near }: LinkWorkers,
  patience: Patience,
): Promise<(Link | undefined)[]> {
  const own: Said = {
    address: text(worker.address),
    ...(near === undefined ? {} : { near: { address: text(near.worker.address), home: near.home } }),
  };
  const said = await exchangeAll(exchange, `${key}/address`, rank, size, own, patience);
  const join = (r: number): Link => {
    const theirs = said[r].near;
    if (near !== undefined && theirs?.home === near.home) {
      return { worker: near.worker, endpoint: near.worker.connect(bytes(theirs.address)), near: true };
    }
    return { worker, endpoint: worker.connect(bytes(said[r].address)), near: false };
  };
  const links: (Link | undefined)[] = Array.from({ length: size }, () => undefined);
  const others = (wanted: (r: number) => boolean): number[] => said.flatMap((_, r) => (r !== rank && wanted(r) ? [r] : []));
  await Promise.all(
    others((r) => r > rank).map(async (r) => {
      links[r] = join(r);
      await ready(links[r].endpoint, r, patience);
    }),
  );
  await exchangeAll(exchange, `${key}/joined`, rank, size, 1, patience);
  await Promise.all(
    others((r) => r < rank).map(async (r) => {
      links[r] = join(r);
      await ready(links[r].endpoint, r, patience);
    }),
  );
  // Nobody sends before both ends of every connection stand: a wake-up for one that does not is late.
  await exchangeAll(exchange, `${key}/ready`, rank, size, 1, patience);
  return links;
}

async function ready(endpoint: Endpoint, rank: number, { timeoutMs, isDead }: Patience): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const died = new Promise<never>((_, reject) => {
    if (isDead === undefined) return;
    timer = setInterval(() => {
      if (isDead(rank)) reject(new RankLost(rank, 'connecting'));
    }, 20);
  });
  try {
    await Promise.race([endpoint.ready({ timeoutMs }), died]);
  } catch (error) {
    if (error instanceof CollectiveError) throw error;
    throw new CollectiveError('COLL_SYSTEM', `rank ${rank} cannot be reached: ${(error as Error).message}`);
  } finally {
    clearInterval(timer);
  }
}

function text(address: Uint8Array): string {
  return Buffer.from(address).toString('base64');
}

function bytes(address: string): Uint8Array {
  return Buffer.from(address, 'base64');
}
