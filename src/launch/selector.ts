/**
 * Which verbs provider carries the traffic of a pair of ranks: shared memory inside a host, the best network between hosts.
 *
 * Candidates are a table: a provider that comes later is one more entry. Every candidate says whether it fits a pair and what it costs; the selection
 * takes the cheapest, and `explain` shows all of them with the reason why each lost.
 */

import { existsSync } from 'node:fs';
import { LaunchError } from './errors.js';
import { type Member, nameOf } from './member.js';

/** A pair of ranks, seen from the first. */
export interface Pair {
  readonly from: Member;
  readonly to: Member;
}

/** A provider that a pair of ranks could use. */
export interface Candidate {
  /** Name for `openDevice`. */
  readonly provider: string;
  /** Shown where one provider stands in the table twice. */
  readonly use?: string;
  /** Typical latency of a small WRITE, us: the order among those that fit. */
  readonly latencyUs: number;
  /** What follows the colon in 'provider:device' on a rank's host. Default: nothing, the provider chooses. */
  device?(member: Member): string | undefined;
  /** undefined when it can join the pair, otherwise why not and what to do. */
  refuses(pair: Pair): string | undefined;
  /** Whether the pair is made for it: to go without it then is a fallback, which is said aloud. */
  expects(pair: Pair): boolean;
}

/** 'rank 0 and rank 1': those of a pair to whom it applies; '' for none. */
function whom({ from, to }: Pair, applies: (member: Member) => boolean): string {
  const found = [from, to].filter(applies);
  return found.map(({ rank }) => `rank ${rank}`).join(' and ');
}

function cannotShare({ from, to }: Pair): string | undefined {
  if (from.host.id === to.host.id) return undefined;
  if (from.host.boot !== to.host.boot || from.host.machine === to.host.machine) return 'they do not share a host';
  return (
    'they share a machine, but not the process namespace or the user, so that neither maps memory of the other: start them as one user in one ' +
    'namespace (docker run --pid=container:NAME, hostPID: true)'
  );
}

function lacksNic(pair: Pair): string | undefined {
  const without = whom(pair, ({ nics }) => nics.length === 0);
  if (without !== '') return `no RDMA device on the host of ${without}`;
  const inactive = whom(pair, ({ nics }) => !nics.some(({ active }) => active));
  return inactive === ''
    ? undefined
    : `no port of an RDMA device is active on the host of ${inactive}: verbena doctor shows them`;
}

function lacksAddress(pair: Pair): string | undefined {
  const without = whom(pair, ({ addresses }) => addresses.length === 0);
  return without === '' ? undefined : `the host of ${without} has no network address: bring an interface up`;
}

const isVirtual = ({ host }: Member) => host.virtual !== undefined;
const isSame = (from: Member, to: Member, what: 'boot' | 'machine') => from.host[what] === to.host[what];

/** Order does not matter; the latency does. */
const CANDIDATES: readonly Candidate[] = [
  {
    provider: 'shm',
    latencyUs: 0.15,
    refuses: cannotShare,
    expects: ({ from, to }) => isSame(from, to, 'boot') && !isVirtual(from),
  },
  { provider: 'ibverbs', latencyUs: 2, refuses: lacksNic, expects: (pair) => whom(pair, ({ nics }) => nics.length === 0) === '' },
  {
    provider: 'roce',
    latencyUs: 20,
    device: ({ addresses }) => addresses[0]?.address,
    refuses: lacksAddress,
    expects: () => true,
  },
  {
    provider: 'shm',
    use: 'between virtual hosts',
    latencyUs: 1000,
    refuses: ({ from, to }) =>
      isVirtual(from) && isSame(from, to, 'machine')
        ? undefined
        : 'only for virtual hosts of one machine, where nothing else joins them',
    expects: () => false,
  },
];

/** One line of an explanation. */
export interface Verdict {
  readonly provider: string;
  readonly use: string | undefined;
  readonly latencyUs: number;
  readonly fits: boolean;
  readonly chosen: boolean;
  readonly why: string;
}

/** The provider of a pair of ranks, and what was found out about every candidate. */
export interface Selection {
  /** undefined: nothing joins the two. */
  readonly provider: string | undefined;
  readonly verdicts: readonly Verdict[];
  /** The pair goes without the provider it is made for: what was wanted, what is missing, how to get it. */
  readonly fallback: string | undefined;
}

/** Why a provider does not work on this machine; undefined where it does. */
export type Availability = ReadonlyMap<string, string | undefined>;

/** Asks every provider whether it works here. Loads the verbs layer, which a rank that only waits does not need. */
export async function availableProviders(): Promise<Availability> {
  const { getProvider } = await import('../verbs/open-device.js');
  const found = new Map<string, string | undefined>();
  for (const name of new Set(CANDIDATES.map(({ provider }) => provider))) {
    // Where there is no device, libibverbs is not loaded to say so.
    const isPointless = name === 'ibverbs' && !existsSync('/sys/class/infiniband');
    found.set(name, isPointless ? 'no RDMA device on this host' : await (await getProvider(name)).unavailable());
  }
  return found;
}

/** Pure: the choice for a pair, with all reasons. */
export function selectProvider(pair: Pair, available: Availability, candidates: readonly Candidate[] = CANDIDATES): Selection {
  const judged = candidates.map((candidate) => {
    const missing = available.has(candidate.provider) ? available.get(candidate.provider) : 'not part of this version';
    return { candidate, refusal: missing ?? candidate.refuses(pair) };
  });
  const fitting = judged
    .filter(({ refusal }) => refusal === undefined)
    .sort((a, b) => a.candidate.latencyUs - b.candidate.latencyUs);
  const best = fitting[0]?.candidate;
  const verdicts = judged.map(({ candidate, refusal }): Verdict => {
    const { provider, use, latencyUs } = candidate;
    const chosen = candidate === best;
    const why =
      refusal ??
      (chosen
        ? 'lowest latency of those that fit'
        : `${best?.provider} is faster: ${best?.latencyUs} us against ${latencyUs} us`);
    return { provider, use, latencyUs, fits: refusal === undefined, chosen, why };
  });
  const missed = judged.find(
    ({ candidate, refusal }) => best && refusal !== undefined && candidate.latencyUs < best.latencyUs && candidate.expects(pair),
  );
  const fallback =
    missed &&
    `${nameOf(pair.from)} to ${nameOf(pair.to)} goes by ${best?.provider}, about ${best?.latencyUs} us a message, instead of ` +
      `${missed.candidate.provider}, ${missed.candidate.latencyUs} us: ${missed.refusal}`;
  return { provider: best?.provider, verdicts, fallback };
}

/** What a rank opens. */
export interface RankProviders {
  /** The fastest first. */
  readonly providers: readonly string[];
  /** The pairs, one for each host, that go without the provider they are made for. */
  readonly fallbacks: readonly string[];
}

/**
 * The providers of a rank: what joins it best with the ranks of each host, and to other hosts every network that fits, because a host may lack what this one
 * has; messaging takes the fastest that both have. Alone a rank opens the fastest that works.
 * @throws LAUNCH_UNREACHABLE with the first pair that nothing joins
 */
export function selectProviders(
  rank: number,
  members: readonly Member[],
  available: Availability,
  candidates: readonly Candidate[] = CANDIDATES,
): RankProviders {
  const from = members[rank];
  const latencies = new Map<string, number>();
  const fallbacks: string[] = [];
  // Ranks of one host are alike.
  const seen = new Set<string>();
  for (const to of members) {
    if (to.rank === rank || seen.has(to.host.id)) continue;
    seen.add(to.host.id);
    const selection = selectProvider({ from, to }, available, candidates);
    if (selection.provider === undefined) {
      throw new LaunchError('LAUNCH_UNREACHABLE', `no provider joins all ranks. ${explainSelection({ from, to }, selection)}`, {
        rank: to.rank,
      });
    }
    if (selection.fallback !== undefined) fallbacks.push(selection.fallback);
    for (const { provider, latencyUs, chosen, fits, use } of selection.verdicts) {
      const isReserve = fits && use === undefined && from.host.id !== to.host.id;
      if (chosen || isReserve) latencies.set(provider, Math.min(latencyUs, latencies.get(provider) ?? Number.POSITIVE_INFINITY));
    }
  }
  if (latencies.size === 0) {
    const working = candidates.filter(({ provider }) => available.has(provider) && available.get(provider) === undefined);
    const best = working.sort((a, b) => a.latencyUs - b.latencyUs)[0];
    return { providers: [best?.provider ?? 'auto'], fallbacks };
  }
  return { providers: [...latencies].sort(([, a], [, b]) => a - b).map(([provider]) => provider), fallbacks };
}

/** The name by which a rank opens a provider: on the interface that was chosen for its host, where that matters. */
export function deviceFor(provider: string, member: Member, candidates: readonly Candidate[] = CANDIDATES): string {
  const device = candidates.find((candidate) => candidate.provider === provider)?.device?.(member);
  return device === undefined ? provider : `${provider}:${device}`;
}

/** The verdicts as lines for people. */
export function explainSelection({ from, to }: Pair, { provider, verdicts }: Selection): string {
  const head = `rank ${from.rank} (${from.host.name}) to rank ${to.rank} (${to.host.name}): ${provider ?? 'nothing joins them'}`;
  const lines = verdicts.map((verdict) => {
    const name = verdict.use ? `${verdict.provider} ${verdict.use}` : verdict.provider;
    return `  ${verdict.chosen ? '*' : ' '} ${name}: ${verdict.why}`;
  });
  return [head, ...lines].join('\n');
}
