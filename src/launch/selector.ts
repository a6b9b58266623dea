/**
 * Which verbs provider carries the traffic of a pair of ranks: shared memory inside a host, the best network between hosts.
 *
 * Candidates are a table: a provider that comes later is one more entry. Every candidate says whether it fits a pair and what it costs; the selection
 * takes the cheapest, and `explain` shows all of them with the reason why each lost.
 */

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
  const { getProvider, providerNames } = await import('../verbs/index.js');
  const found = new Map<string, string | undefined>();
  for (const name of providerNames()) found.set(name, await (await getProvider(name)).unavailable());
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
 * The provider for a world with one engine: the fastest that joins every two ranks.
 * @throws LAUNCH_UNREACHABLE with the first pair that nothing joins, or that no common provider does
 */
export function selectCommonProvider(
  members: readonly Member[],
  available: Availability,
  candidates: readonly Candidate[] = CANDIDATES,
): string {
  const working = candidates.filter(({ provider }) => available.has(provider) && available.get(provider) === undefined);
  let left = [...new Set(working.map(({ provider }) => provider))];
  // Ranks of one host are alike: one of each host, and two of the first, show every kind of pair.
  const seen = new Map<string, Member>();
  const samples = members.filter((member) => {
    const fresh = !seen.has(member.host.id);
    if (fresh) seen.set(member.host.id, member);
    return fresh;
  });
  const pairs = samples.flatMap((from, i) => samples.slice(i + 1).map((to) => ({ from, to })));
  const neighbour = members.find((member) => !samples.includes(member));
  if (neighbour) pairs.push({ from: seen.get(neighbour.host.id) as Member, to: neighbour });
  for (const pair of pairs) {
    const joining = left.filter((provider) =>
      working.some((one) => one.provider === provider && one.refuses(pair) === undefined),
    );
    if (joining.length === 0) {
      throw new LaunchError(
        'LAUNCH_UNREACHABLE',
        `no provider joins all ranks. ${explainSelection(pair, selectProvider(pair, available, candidates))}`,
        { rank: pair.to.rank },
      );
    }
    left = joining;
  }
  const latency = (provider: string) =>
    Math.min(...working.filter((one) => one.provider === provider).map((one) => one.latencyUs));
  return left.sort((a, b) => latency(a) - latency(b))[0] ?? 'auto';
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
