/** Why a message of some size goes the way it goes: every candidate, its cost, and why it lost, as data and as a table. */

import type { Costs, ProtocolName } from './protocol.js';
import { cheapest, costAt, type Range, type Selection } from './selection.js';

/** A protocol that was weighed for a message, and why it won or lost. */
export interface CandidateExplanation {
  readonly protocol: ProtocolName;
  readonly summary: string;
  /** Nanoseconds at this size, or undefined when it cannot carry it. */
  readonly costNs: number | undefined;
  /** The line that the cost lies on; undefined where the engine keeps it to itself. */
  readonly fixedNs: number | undefined;
  readonly nsPerByte: number | undefined;
  readonly chosen: boolean;
  /** One clause: why it was chosen or was not. */
  readonly reason: string;
}

export interface Explanation {
  /** 'tag', 'active message'. */
  readonly operation: string;
  readonly bytes: number;
  readonly protocol: ProtocolName;
  /** When the send completes. */
  readonly completion: string;
  readonly candidates: readonly CandidateExplanation[];
  /** The choice for every size. */
  readonly ranges: readonly Range[];
  /** Undefined where the engine keeps them to itself. */
  readonly costs: Costs | undefined;
  /** What an engine that chooses by itself says of the endpoint: transports, lanes, thresholds. */
  readonly engine?: string;
}

/** Explains one size of a selection. */
export function explainSelection(
  operation: string,
  bytes: number,
  costs: Costs,
  selection: Selection,
  forced?: ProtocolName,
): Explanation {
  const best = cheapest(selection.candidates, bytes, forced);
  if (best === undefined) throw new RangeError(`no protocol carries ${bytes} bytes`);
  const bestNs = costAt(best.line, bytes);
  const candidates = selection.candidates.map(({ protocol, line, minBytes, maxBytes, unusable }): CandidateExplanation => {
    const outside = bytes < minBytes || bytes > maxBytes;
    const costNs = unusable === undefined && !outside ? costAt(line, bytes) : undefined;
    const chosen = protocol === best.protocol;
    let reason = unusable ?? '';
    if (chosen) reason = protocol.name === forced ? 'it was asked for' : 'the lowest cost';
    else if (unusable === undefined && outside) {
      reason = bytes > maxBytes ? `it carries at most ${maxBytes} bytes` : `it is used from ${minBytes} bytes on`;
    } else if (costNs !== undefined) {
      reason = costNs === bestNs ? 'the same cost, but later in the list' : `${Math.round(costNs - bestNs)} ns more`;
      if (best.protocol.name === forced) reason = `${forced} was asked for`;
    }
    return {
      protocol: protocol.name,
      summary: protocol.summary,
      costNs,
      fixedNs: line.fixedNs,
      nsPerByte: line.nsPerByte,
      chosen,
      reason,
    };
  });
  return {
    operation,
    bytes,
    protocol: best.protocol.name,
    completion: best.protocol.completion,
    candidates,
    ranges: selection.ranges,
    costs,
  };
}
