/** What UCX chose for an endpoint, read from its own description: lanes with their transports, and from which size on a message goes which way. */

import type { CandidateExplanation, Explanation } from '../protocols/explanation.js';
import type { ProtocolName } from '../protocols/protocol.js';
import type { Range } from '../protocols/selection.js';

interface Known {
  readonly protocol: ProtocolName;
  readonly summary: string;
}

const KNOWN: Readonly<Record<string, Known>> = {
  'egr/short': { protocol: 'eager-short', summary: 'UCX writes header and payload at once' },
  'egr/bcopy': { protocol: 'eager-bcopy', summary: "UCX copies through the transport's buffers" },
  'egr/zcopy': { protocol: 'eager-zcopy', summary: 'UCX sends from the memory of the message' },
  rndv: { protocol: 'rndv-get', summary: 'UCX announces it, and the receiver fetches it' },
};

/** Reads '0..<egr/short>..93..<egr/bcopy>..8256..<rndv>..(inf)'. */
function rangesOf(line: string): { readonly name: string; readonly fromBytes: number; readonly toBytes: number }[] {
  const found: { name: string; fromBytes: number; toBytes: number }[] = [];
  for (const [, from, name, to] of line.matchAll(/(?<=^|\.\.)(\d+)\.\.<([^>]+)>\.\.(?=(\d+|\(inf\)))/g)) {
    found.push({ name, fromBytes: Number(from), toBytes: to === '(inf)' ? Number.POSITIVE_INFINITY : Number(to) });
  }
  return found;
}

/** Explains one size. @param described what ucp_ep_print_info prints @param shared what goes through shared memory without UCX's protocols, or '' */
export function explainUcx(operation: string, bytes: number, described: string, shared: string): Explanation {
  const lines = described.split('\n').map((line) => line.replace(/^#\s*/, '').trim());
  const thresholds =
    lines
      .find((line) => line.startsWith('am_send:'))
      ?.slice('am_send:'.length)
      .trim() ?? '';
  const transports = lines.filter((line) => line.startsWith('lane['));
  const all = rangesOf(thresholds).filter(({ name }) => name in KNOWN);
  const ranges = all.map(({ name, fromBytes, toBytes }): Range => ({ fromBytes, toBytes, protocol: KNOWN[name].protocol }));
  const at = all.findIndex(({ fromBytes, toBytes }) => bytes >= fromBytes && bytes < toBytes);
  const candidates = all.map(({ name, fromBytes, toBytes }, i): CandidateExplanation => {
    const room = toBytes === Number.POSITIVE_INFINITY ? `from ${fromBytes} bytes on` : `for ${fromBytes} to ${toBytes - 1} bytes`;
    const reason = i === at ? `UCX takes it ${room}` : `UCX takes it only ${room}`;
    return { ...KNOWN[name], costNs: undefined, fixedNs: undefined, nsPerByte: undefined, chosen: i === at, reason };
  });
  return {
    operation,
    bytes,
    protocol: ranges[at]?.protocol ?? 'rndv-get',
    completion: ranges[at]?.protocol === 'rndv-get' ? 'when the receiver has fetched it' : 'when UCX has taken it',
    candidates,
    ranges,
    costs: undefined,
    engine: [...transports, `am_send: ${thresholds}`, ...(shared === '' ? [] : [shared])].join('\n'),
  };
}
