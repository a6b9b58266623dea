/**
 * The connectivity test: which pair of ranks cannot talk on which address. Wrong interfaces, firewalls and half-configured networks show up as a
 * name here, before they show up as a hang.
 *
 * Every rank listens on any free port of every address of its host, publishes the ports in the store, and connects to all ranks of other hosts (or of all
 * others, when asked). A connection must carry a word of the job, so that somebody else's service on the same port does not count.
 */

import { randomBytes } from 'node:crypto';
import { connect, createServer, type Server } from 'node:net';
import { LaunchError } from './errors.js';
import type { HostAddress } from './interfaces.js';
import type { Member } from './member.js';
import type { Store } from './store/store.js';

export interface ConnectivityOptions {
  /** For one connection, ms. Default 2,000. */
  timeoutMs?: number;
  /** Also pairs on one host. Default: only pairs of different hosts. */
  insideHosts?: boolean;
  /** Addresses to test instead of those that the ranks have told. */
  addresses?: readonly HostAddress[];
}

/** One address of one pair. */
export interface PathResult {
  readonly from: number;
  readonly to: number;
  readonly interface: string;
  readonly address: string;
  /** undefined: they talk. */
  readonly problem: string | undefined;
}

/** Which pairs of ranks can talk, address by address. */
export interface ConnectivityResult {
  readonly paths: readonly PathResult[];
  /** Pairs without any address that works. */
  readonly separated: readonly { readonly from: number; readonly to: number }[];
}

interface Door extends HostAddress {
  readonly port: number;
}

function openDoor(address: HostAddress, word: string): Promise<{ server: Server; door: Door } | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(word);
    });
    server.on('error', () => resolve(undefined)); // the address is gone: then nobody can reach it, and they will say so
    server.listen({ host: address.address, port: 0 }, () => {
      server.unref();
      resolve({ server, door: { ...address, port: (server.address() as { port: number }).port } });
    });
  });
}

function tryDoor(door: Door, word: string, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: door.address, port: door.port });
    let heard = '';
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(`no answer within ${timeoutMs} ms: a firewall, or a network that the other host is not in`);
    }, timeoutMs);
    socket.on('data', (chunk) => {
      heard += chunk;
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve(error.code ?? error.message);
    });
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(heard === word ? undefined : 'somebody else answered: two hosts have the same address');
    });
  });
}

/**
 * All ranks call it together. Every rank gets the whole result.
 * @throws LAUNCH_TIMEOUT when a rank does not take part
 */
export async function testConnectivity(
  { rank, members, store }: { readonly rank: number; readonly members: readonly Member[]; readonly store: Store },
  options: ConnectivityOptions = {},
): Promise<ConnectivityResult> {
  const { timeoutMs = 2000, insideHosts = false } = options;
  const round = await store.add(`verbena/connectivity/round/${rank}`, 1);
  const keyOf = (kind: string, who: number) => `verbena/connectivity/${round}/${kind}/${who}`;
  const word = randomBytes(16).toString('hex');
  const own = options.addresses ?? members[rank].addresses;
  const opened = (await Promise.all(own.map((address) => openDoor(address, word)))).filter((door) => door !== undefined);
  try {
    await store.set(keyOf('doors', rank), JSON.stringify({ word, doors: opened.map(({ door }) => door) }));
    const others = members.filter((other) => other.rank !== rank && (insideHosts || other.host.id !== members[rank].host.id));
    const paths: PathResult[] = [];
    for (const other of others) {
      const text = Buffer.from(await store.wait(keyOf('doors', other.rank))).toString();
      const told = JSON.parse(text) as { word: string; doors: Door[] };
      const problems = await Promise.all(told.doors.map((door) => tryDoor(door, told.word, timeoutMs)));
      told.doors.forEach((door, i) => {
        paths.push({ from: rank, to: other.rank, interface: door.interface, address: door.address, problem: problems[i] });
      });
      if (told.doors.length === 0) {
        paths.push({
          from: rank,
          to: other.rank,
          interface: '',
          address: '',
          problem: 'the other host has no address that others could use',
        });
      }
    }
    await store.set(keyOf('paths', rank), JSON.stringify(paths));
    const all = await Promise.all(members.map((member) => store.wait(keyOf('paths', member.rank))));
    await store.barrier(keyOf('done', 0));
    await store.delete(keyOf('doors', rank));
    await store.delete(keyOf('paths', rank));
    return summarise(all.flatMap((bytes) => JSON.parse(Buffer.from(bytes).toString()) as PathResult[]));
  } finally {
    for (const { server } of opened) server.close();
  }
}

function summarise(paths: readonly PathResult[]): ConnectivityResult {
  const pairs = new Map<string, { from: number; to: number; works: boolean }>();
  for (const { from, to, problem } of paths) {
    const pair = pairs.get(`${from} ${to}`) ?? { from, to, works: false };
    pair.works ||= problem === undefined;
    pairs.set(`${from} ${to}`, pair);
  }
  const separated = [...pairs.values()].filter(({ works }) => !works).map(({ from, to }) => ({ from, to }));
  return { paths, separated };
}

/** The error for pairs that cannot talk, or undefined. */
export function connectivityError({ paths, separated }: ConnectivityResult): LaunchError | undefined {
  if (separated.length === 0) return undefined;
  const lines = paths
    .filter(({ from, to }) => separated.some((pair) => pair.from === from && pair.to === to))
    .map(({ from, to, interface: name, address, problem }) => `rank ${from} to rank ${to} on ${address} (${name}): ${problem}`);
  return new LaunchError(
    'LAUNCH_UNREACHABLE',
    `${lines.join('; ')}. Choose an interface that all hosts share with VERBENA_INTERFACE (a name as in eth1, or a prefix as in 10.1.0.0/16), or open ` +
      'the firewall between the hosts.',
    { rank: separated[0].to },
  );
}
