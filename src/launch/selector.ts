/**
 * Which verbs provider carries the traffic of a pair of ranks: shared memory inside a host, the best network between hosts.
 *
 * Candidates are a table: a provider that comes later is one more entry. Every candidate says whether it fits a pair and what it costs; the selection
 * takes the cheapest, and `explain` shows all of them with the reason why each lost.
 */

import { existsSync } from 'node:fs';
import { LaunchError } from './errors.js';
import type { Member } from './member.js';

/** A pair of ranks, seen from the first. */
export interface Pair {
  readonly from: Member;
  readonly to: Member;
}

export interface Candidate {
  /** Name for `openDevice`. */
  readonly provider: string;
  /** Shown where one provider stands in the table twice. */
  readonly use?: string;
  /** Typical latency of a small WRITE, us: the order among those that fit. */
  readonly latencyUs: number;
  /** What follows the colon in 'provider:device' on a rank's host. Default: nothing, the provider chooses. */
  device?(member: Member): string | undefined;
  /** undefined when it can join the pair, otherwise why not. */
  refuses(pair: Pair): string | undefined;
}

const sharesMemory = ({ from, to }: Pair) => from.host.id === to.host.id;
const onSeparateHosts = ({ from, to }: Pair) => (from.host.machine === to.host.machine ? 'both are on one machine' : undefined);

function needsNics({ from, to }: Pair): string | undefined {
  const without = [from, to].filter(({ nics }) => nics.length === 0);
  if (without.length === 0) return undefined;
  return `no RDMA device on the host of ${without.map(({ rank }) => `rank ${rank}`).join(' and ')}`;
}

/** Order does not matter; the latency does. */
const CANDIDATES: readonly Candidate[] = [
  {
    provider: 'shm',
    latencyUs: 0.15,
    refuses: (pair) => (sharesMemory(pair) ? undefined : 'they do not share a host'),
  },
  { provider: 'ibverbs', latencyUs: 2, refuses: needsNics },
  {
    provider: 'roce',
    latencyUs: 20,
    device: ({ addresses }) => addresses[0]?.address,
    refuses: ({ from, to }) =>
      from.addresses.length > 0 && to.addresses.length > 0 ? undefined : 'a host without a network address',
  },
  {
    provider: 'shm',
    use: 'between virtual hosts',
    latencyUs: 1000,
    refuses: (pair) =>
      pair.from.host.virtual !== undefined && onSeparateHosts(pair) !== undefined
        ? undefined
        : 'only for virtual hosts of one machine, where nothing else joins them',
  },
];

/** One line of an explanation. */
export interface Verdict {
  readonly provider: string;
  readonly use: string | undefined;
  readonly latencyUs: number;
  readonly chosen: boolean;
  readonly why: string;
}

export interface Selection {
  /** undefined: nothing joins the two. */
  readonly provider: string | undefined;
  readonly verdicts: readonly Verdict[];
}

/** Why a provider does not work on this machine; undefined where it does. */
export type Availability = ReadonlyMap<string, string | undefined>;

/** Asks every provider whether it works here. Loads the verbs layer, which a rank that only waits does not need. */
export async function availableProviders(): Promise<Availability> {
  const { getProvider } = await import('../verbs/index.js');
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
    return { provider, use, latencyUs, chosen, why };
  });
  return { provider: best?.provider, verdicts };
}

/**
 * The providers that a rank opens: one for every kind of pair it is part of, the fastest first. Alone it opens the fastest that works.
 * @throws LAUNCH_UNREACHABLE with the first pair that nothing joins
 */
export function selectProviders(
  rank: number,
  members: readonly Member[],
  available: Availability,
  candidates: readonly Candidate[] = CANDIDATES,
): string[] {
  const from = members[rank];
  const chosen = new Map<string, number>();
  // Ranks of one host are alike.
  const seen = new Set<string>();
  for (const to of members) {
    if (to.rank === rank || seen.has(to.host.id)) continue;
    seen.add(to.host.id);
    const selection = selectProvider({ from, to }, available, candidates);
    const verdict = selection.verdicts.find((one) => one.chosen);
    if (verdict === undefined) {
      throw new LaunchError('LAUNCH_UNREACHABLE', `no provider joins all ranks. ${explainSelection({ from, to }, selection)}`, {
        rank: to.rank,
      });
    }
    chosen.set(verdict.provider, Math.min(verdict.latencyUs, chosen.get(verdict.provider) ?? Number.POSITIVE_INFINITY));
  }
  if (chosen.size === 0) {
    const working = candidates.filter(({ provider }) => available.has(provider) && available.get(provider) === undefined);
    const best = working.sort((a, b) => a.latencyUs - b.latencyUs)[0];
    return [best?.provider ?? 'auto'];
  }
  return [...chosen].sort(([, a], [, b]) => a - b).map(([provider]) => provider);
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
