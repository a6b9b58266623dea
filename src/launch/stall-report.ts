/**
 * The stall report: who waits, for how long and where, and who is missing. Pure: the coordinator collects, this puts it into words.
 */

import { ranksInWords } from './member.js';
import { ANYONE } from './waits.js';

/** Where a rank waits, as its native thread reads it from the board. */
export interface Wait {
  /** What the call is called: "barrier 'start'". */
  readonly site: string;
  /** The rank it waits for; -1: all; -2: whoever comes. */
  readonly peer: number;
  /** A number that tells two calls of one site apart: a tag, a sequence number; -1: none. */
  readonly detail: number;
  readonly ageMs: number;
}

/** What is known of one rank. */
export type Whereabouts =
  | { readonly state: 'waiting'; readonly wait: Wait }
  /** In no call of Verbena: it computes, or is blocked in something else. */
  | { readonly state: 'elsewhere' }
  /** Its native thread does not answer: stopped, or its machine is overloaded. */
  | { readonly state: 'silent' }
  | { readonly state: 'left' }
  | { readonly state: 'lost'; readonly reason: string };

function callOf(wait: Wait): string {
  const detail = wait.detail >= 0 ? ` #${wait.detail}` : '';
  const peer = wait.peer >= 0 ? ` with rank ${wait.peer}` : wait.peer === ANYONE ? ' with anyone' : '';
  return `${wait.site}${detail}${peer}`;
}

/** Ranks that the waiting ones miss: those named as peers, and for calls of everybody those that are not in the same call. */
export function missingRanks(where: ReadonlyMap<number, Whereabouts>): number[] {
  const missing = new Set<number>();
  for (const [rank, { state, ...rest }] of where) {
    if (state !== 'waiting') continue;
    const { wait } = rest as { wait: Wait };
    if (wait.peer === ANYONE) continue;
    if (wait.peer >= 0) {
      const peer = where.get(wait.peer);
      if (peer?.state !== 'waiting' || peer.wait.peer !== rank) missing.add(wait.peer);
      continue;
    }
    for (const [other, its] of where) {
      if (its.state !== 'waiting' || its.wait.site !== wait.site || its.wait.detail !== wait.detail) missing.add(other);
    }
  }
  // Whoever waits for somebody who is missing is held up, not the cause.
  const causes = [...missing].filter((rank) => where.get(rank)?.state !== 'waiting');
  return (causes.length > 0 ? causes : [...missing]).sort((a, b) => a - b);
}

/** The report, several lines. */
export function stallReport(where: ReadonlyMap<number, Whereabouts>): string {
  const lines = new Map<string, { ranks: number[]; oldestMs: number }>();
  for (const [rank, at] of [...where].sort(([a], [b]) => a - b)) {
    const words = {
      waiting: () => `in ${callOf((at as { wait: Wait }).wait)}`,
      elsewhere: () => 'in no call of Verbena: computing, or blocked in code of its own',
      silent: () => 'no answer: the process is stopped or its machine overloaded',
      left: () => 'left: it has finished',
      lost: () => `lost: ${(at as { reason: string }).reason}`,
    }[at.state]();
    const line = lines.get(words) ?? { ranks: [], oldestMs: 0 };
    line.ranks.push(rank);
    if (at.state === 'waiting') line.oldestMs = Math.max(line.oldestMs, at.wait.ageMs);
    lines.set(words, line);
  }
  const waitsForAnyone = [...where.values()].some((at) => at.state === 'waiting' && at.wait.peer === ANYONE);
  const oldest = Math.max(...[...lines.values()].map((line) => line.oldestMs));
  const missing = missingRanks(where);
  const head =
    missing.length > 0
      ? `stalled for ${(oldest / 1000).toFixed(1)} s: waiting for ${ranksInWords(missing)}`
      : `stalled for ${(oldest / 1000).toFixed(1)} s: ${
          waitsForAnyone ? 'waiting for a message that nobody sends' : 'everybody waits, and nobody for somebody who is missing'
        }`;
  const body = [...lines].map(([words, { ranks, oldestMs }]) => {
    const age = oldestMs > 0 ? ` for ${(oldestMs / 1000).toFixed(1)} s` : '';
    return `  ${ranksInWords(ranks)}: ${words}${age}`;
  });
  return [head, ...body].join('\n');
}
