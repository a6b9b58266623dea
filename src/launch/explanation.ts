/** The choices of a world: engine, provider for each kind of pair, network addresses; as data, and in words. */

import { type EngineVerdict, engineOf, selectEngine } from './engine.js';
import { type AddressCandidate, explainAddresses } from './interfaces.js';
import type { Member } from './member.js';
import { type Availability, explainSelection, type Pair, type Selection, selectProvider } from './selector.js';

/** Which engine and which provider the ranks of a world take, and why. */
export interface WorldChoices {
  readonly engines: readonly EngineVerdict[];
  /** Of the engine 'verbs': from one rank to one of each host, since ranks of a host are alike. UCX chooses by itself. */
  readonly pairs: readonly (Pair & Selection)[];
  /** Of this host, best first. */
  readonly addresses: readonly AddressCandidate[];
}

/** As a rank sees it. @param wanted interface, address or prefix that was asked for */
export function choicesOf(
  rank: number,
  members: readonly Member[],
  available: Availability,
  wanted: string | undefined,
): WorldChoices {
  const from = members[rank];
  const others = members.filter((member) => member !== from);
  const isVerbs = engineOf(members) === 'verbs';
  const oneOfEach = others.filter((to) => isVerbs && others.find(({ host }) => host.id === to.host.id) === to);
  return {
    engines: selectEngine(members),
    pairs: oneOfEach.map((to) => ({ from, to, ...selectProvider({ from, to }, available) })),
    addresses: explainAddresses(wanted),
  };
}

/** The choices as lines for people. */
export function explainChoices({ engines, pairs, addresses }: WorldChoices): string {
  const line = (chosen: boolean, what: string, why: string) => `  ${chosen ? '*' : ' '} ${what}: ${why}`;
  return [
    `engine: ${engines.find(({ chosen }) => chosen)?.engine}`,
    ...engines.map(({ engine, chosen, why }) => line(chosen, engine, why)),
    ...pairs.map((pair) => explainSelection(pair, pair)),
    'addresses by which other hosts reach this one, best first',
    ...addresses.map(({ interface: name, address, order, why }) => line(order !== undefined, `${name} ${address}`, why)),
  ].join('\n');
}
