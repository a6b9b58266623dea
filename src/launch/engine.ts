/**
 * What carries the messages of a world: one engine for all ranks. 'verbs' joins every pair by the provider that fits it (selector.ts); 'ucx' leaves all pairs to
 * libucp. Left to itself ('auto') a world takes verbs.
 */

import { LaunchError } from './errors.js';
import { type Member, ranksInWords } from './member.js';

export type Engine = 'verbs' | 'ucx';

/** One line of an explanation. */
export interface EngineVerdict {
  readonly engine: Engine;
  readonly chosen: boolean;
  readonly why: string;
}

/** What VERBENA_ENGINE says. @throws LAUNCH_ENVIRONMENT for another word. */
export function askedEngine(word = 'auto'): Engine | 'auto' {
  if (word === 'auto' || word === 'verbs' || word === 'ucx') return word;
  throw new LaunchError('LAUNCH_ENVIRONMENT', `VERBENA_ENGINE is '${word}': use verbs, ucx or auto`);
}

/** Pure: the engine of a world with all reasons, the same on every rank. @throws LAUNCH_ENVIRONMENT when the ranks were told different ones. */
export function selectEngine(members: readonly Pick<Member, 'rank' | 'engine'>[]): EngineVerdict[] {
  const asked = members[0].engine;
  const others = members.filter(({ engine }) => engine !== asked);
  if (others.length > 0) {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `a world has one engine, and rank 0 was told VERBENA_ENGINE=${asked}, ${ranksInWords(others.map(({ rank }) => rank))} ${others[0].engine}: ` +
        'set it for all ranks, or for none',
      { rank: others[0].rank },
    );
  }
  if (asked !== 'auto') {
    const shown = asked === 'ucx' ? '; endpoint.explain() shows the transports that it takes to a rank' : '';
    return (['verbs', 'ucx'] as const).map((engine) => ({
      engine,
      chosen: engine === asked,
      why: engine === asked ? `asked for${shown}` : `${asked} was asked for`,
    }));
  }
  return [
    { engine: 'verbs', chosen: true, why: 'every pair by the provider that fits it best' },
    { engine: 'ucx', chosen: false, why: 'slower on the pairs that verbs joins; for a world of it: --engine ucx' },
  ];
}

/** The engine of a world. @throws as selectEngine */
export function engineOf(members: readonly Member[]): Engine {
  return selectEngine(members).find(({ chosen }) => chosen)?.engine ?? 'verbs';
}
