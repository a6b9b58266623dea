/**
 * The override string: which algorithms a user wants, in the manner of NCCL_ALGO.
 *
 *   allreduce:ring;broadcast:binomial         these and no others
 *   allreduce:ring,halving-doubling           one of these, by cost
 *   allreduce:^linear,binomial-tree           anything but these
 *   ring                                      for every collective that has one of that name
 *
 * Later entries win. Spaces do not matter. An unknown name is an error that lists what there is.
 */

import type { Collective } from '../schedule/schedule.js';
import { ALGORITHMS, findAlgorithm } from './registry.js';

/** Names allowed per collective; a collective that is absent allows all. */
export type Override = ReadonlyMap<Collective, ReadonlySet<string>>;

/** @throws RangeError on an unknown collective or algorithm, or when nothing is left. */
export function parseOverride(text: string): Override {
  const allowed = new Map<Collective, ReadonlySet<string>>();
  for (const entry of text.split(';').map((part) => part.trim())) {
    if (entry === '') continue;
    const colon = entry.indexOf(':');
    const list = entry.slice(colon + 1).trim();
    if (colon !== -1) {
      const collective = collectiveNamed(entry.slice(0, colon).trim());
      allowed.set(collective, namesOf(collective, list));
      continue;
    }
    const having = COLLECTIVES.filter((collective) =>
      ALGORITHMS[collective].some(({ name }) => name === list.replace(/^\^/, '')),
    );
    if (having.length === 0) throw new RangeError(`no collective has an algorithm '${list}'`);
    for (const collective of having) allowed.set(collective, namesOf(collective, list));
  }
  return allowed;
}

const COLLECTIVES = Object.keys(ALGORITHMS) as Collective[];

function collectiveNamed(name: string): Collective {
  const found = COLLECTIVES.find((collective) => collective === name);
  if (found === undefined) throw new RangeError(`there is no collective '${name}'; known: ${COLLECTIVES.join(', ')}`);
  return found;
}

function namesOf(collective: Collective, list: string): ReadonlySet<string> {
  const except = list.startsWith('^');
  const names = new Set(
    (except ? list.slice(1) : list)
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  );
  for (const name of names) findAlgorithm(collective, name);
  const allowed = except ? ALGORITHMS[collective].map(({ name }) => name).filter((name) => !names.has(name)) : names;
  const result = new Set(allowed);
  if (result.size === 0) throw new RangeError(`'${list}' leaves no algorithm for ${collective}`);
  return result;
}
