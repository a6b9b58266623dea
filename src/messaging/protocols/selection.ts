/**
 * Choosing a protocol: the lower envelope of the cost lines of those that can be used. Ties go to the earlier in the list.
 *
 * ```
 *   ns |            eager-bcopy /
 *      |                      /      _ - ~  rndv-get
 *      |                  _/- ~
 *      |          _ - ~ /
 *      |  - - ~      /            the threshold is where the lines cross; nobody wrote it down
 *      +-------------------------------------- bytes
 * ```
 */

import { MessagingError } from '../errors.js';
import { eagerBcopy } from './eager-bcopy.js';
import { eagerShort } from './eager-short.js';
import { eagerZcopy } from './eager-zcopy.js';
import type { Abilities, CostLine, Costs, Protocol, ProtocolName } from './protocol.js';
import { rndvAm } from './rndv-am.js';
import { rndvGet } from './rndv-get.js';
import { rndvPipeline } from './rndv-pipeline.js';
import { rndvPut } from './rndv-put.js';

/** In the order that breaks ties. */
export const PROTOCOLS: readonly Protocol[] = [eagerShort, eagerBcopy, eagerZcopy, rndvGet, rndvPut, rndvPipeline, rndvAm];

/** What a user may fix. */
export interface Force {
  /** Use this one wherever it can be used. */
  readonly protocol?: ProtocolName;
  /** Rendezvous from this many bytes on, eager below. Default: by cost. */
  readonly rendezvousBytes?: number;
}

/** Message sizes that go one way: from `fromBytes` up to, not including, `toBytes`. */
export interface Range {
  readonly fromBytes: number;
  readonly toBytes: number;
  readonly protocol: ProtocolName;
}

/** One protocol as it stands for one endpoint. */
export interface Candidate {
  readonly protocol: Protocol;
  readonly line: CostLine;
  readonly minBytes: number;
  /** Inclusive. */
  readonly maxBytes: number;
  /** Why it takes no part, or undefined. */
  readonly unusable: string | undefined;
}

export interface Selection {
  readonly candidates: readonly Candidate[];
  readonly ranges: readonly Range[];
}

export function costAt(line: CostLine, bytes: number): number {
  return line.fixedNs + line.nsPerByte * bytes;
}

const isEager = (name: ProtocolName) => name.startsWith('eager');

/** All candidates and the ranges of sizes. Pure. Throws MSG_INVALID for a forced protocol that cannot be used. */
export function select(costs: Costs, abilities: Abilities, force: Force = {}): Selection {
  const known = PROTOCOLS.find((protocol) => protocol.name === force.protocol);
  if (force.protocol !== undefined && known === undefined) {
    throw new MessagingError(
      'MSG_INVALID',
      `there is no protocol '${force.protocol}': there are ${PROTOCOLS.map((protocol) => protocol.name).join(', ')}`,
    );
  }
  const candidates = PROTOCOLS.map((protocol): Candidate => {
    const { min, max } = protocol.range(abilities);
    const line = protocol.cost(costs, abilities);
    let unusable = protocol.unusable(abilities);
    if (unusable !== undefined && protocol.name === force.protocol) {
      throw new MessagingError('MSG_INVALID', `${protocol.name} was asked for, but ${unusable}`);
    }
    let minBytes = min;
    let maxBytes = max;
    if (force.rendezvousBytes !== undefined && unusable === undefined) {
      if (isEager(protocol.name)) maxBytes = Math.min(maxBytes, force.rendezvousBytes - 1);
      // What eager cannot carry goes by rendezvous, whatever the threshold says.
      else minBytes = Math.max(minBytes, Math.min(force.rendezvousBytes, abilities.eagerBytes + 1));
      if (minBytes > maxBytes) unusable = `rendezvous was asked for from ${force.rendezvousBytes} bytes on`;
    }
    return { protocol, line, minBytes, maxBytes, unusable };
  });
  return { candidates, ranges: envelope(candidates, force.protocol) };
}

/** Sizes at which the cheapest may change: where lines cross, and where a protocol begins or ends. */
function breakpoints(usable: readonly Candidate[]): number[] {
  const points = new Set([0]);
  for (const a of usable) {
    points.add(a.minBytes);
    if (Number.isFinite(a.maxBytes)) points.add(a.maxBytes + 1);
    for (const b of usable) {
      const slope = a.line.nsPerByte - b.line.nsPerByte;
      const crossing = slope === 0 ? -1 : Math.ceil((b.line.fixedNs - a.line.fixedNs) / slope);
      if (crossing > 0 && Number.isSafeInteger(crossing)) points.add(crossing);
    }
  }
  return [...points].sort((a, b) => a - b);
}

/** The one to use at a size. */
export function cheapest(candidates: readonly Candidate[], bytes: number, forced?: ProtocolName): Candidate | undefined {
  const usable = candidates.filter(
    (candidate) => candidate.unusable === undefined && bytes >= candidate.minBytes && bytes <= candidate.maxBytes,
  );
  const asked = usable.find((candidate) => candidate.protocol.name === forced);
  if (asked !== undefined) return asked;
  let best: Candidate | undefined;
  for (const candidate of usable) {
    if (best === undefined || costAt(candidate.line, bytes) < costAt(best.line, bytes)) best = candidate;
  }
  return best;
}

function envelope(candidates: readonly Candidate[], forced: ProtocolName | undefined): Range[] {
  const usable = candidates.filter((candidate) => candidate.unusable === undefined);
  const ranges: Range[] = [];
  const points = breakpoints(usable);
  points.forEach((fromBytes, i) => {
    const best = cheapest(usable, fromBytes, forced);
    if (best === undefined) return;
    const toBytes = points[i + 1] ?? Number.POSITIVE_INFINITY;
    const last = ranges.at(-1);
    if (last?.protocol === best.protocol.name) ranges[ranges.length - 1] = { ...last, toBytes };
    else ranges.push({ fromBytes, toBytes, protocol: best.protocol.name });
  });
  return ranges;
}

/** The protocol of a size. */
export function protocolAt(ranges: readonly Range[], bytes: number): ProtocolName {
  for (const range of ranges) if (bytes < range.toBytes) return range.protocol;
  return 'rndv-am';
}
