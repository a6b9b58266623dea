/**
 * How much shared memory a process holds for each peer, by transport, when it talks to many: RC keeps a queue pair per peer, UD and DC one for
 * all. Counted are the pages of the hub's own segments, as the kernel counts them, before and after the peers.
 */

import type { CpuPair } from '../../cpus.js';
import { significant } from '../../size.js';
import type { Style } from '../../style.js';
import { boxTable } from '../../table.js';
import { ChildProgram } from './child-program.js';
import type { HubReport, PeerReport, Transport } from './footprint-process.js';

const PROGRAM = new URL('./footprint-process.js', import.meta.url);
const TRANSPORTS: readonly Transport[] = ['RC', 'DC', 'UD'];

export interface FootprintEntry {
  readonly who: string;
  readonly metric: 'footprint';
  readonly transport: Transport;
  readonly peers: number;
  readonly unit: 'bytes/peer';
  readonly bytesPerPeer: number;
  /** Bytes of the hub's segments in all. */
  readonly bytes: number;
  /** Bytes before the first peer. */
  readonly baseBytes: number;
}

export interface FootprintDocument {
  readonly results: readonly FootprintEntry[];
  /** Of bytes per peer. */
  readonly ratios: { readonly 'DC/UD': number; readonly 'RC/UD': number };
}

async function measureTransport(
  provider: string,
  transport: Transport,
  peers: number,
  cpus: CpuPair,
  signal: AbortSignal,
): Promise<FootprintEntry> {
  const hub = new ChildProgram(PROGRAM, { cpus: [cpus[0]], signal });
  const other = new ChildProgram(PROGRAM, { cpus: [cpus[1]], signal });
  try {
    const [mine, theirs] = await Promise.all([
      hub.request<HubReport>('openHub', { provider, transport, peers }),
      other.request<PeerReport>('openPeers', { provider, transport, peers }),
    ]);
    await other.request('connectPeers', mine.addresses);
    const { bytes, baseBytes } = await hub.request<{ bytes: number; baseBytes: number }>('talk', theirs);
    const bytesPerPeer = (bytes - baseBytes) / peers;
    return {
      who: `verbena/${provider}`,
      metric: 'footprint',
      transport,
      peers,
      unit: 'bytes/peer',
      bytesPerPeer,
      bytes,
      baseBytes,
    };
  } finally {
    await Promise.all([hub.close(), other.close()]);
  }
}

export async function measureFootprint(
  provider: string,
  peers: number,
  cpus: CpuPair,
  signal: AbortSignal,
  progress: (line: string) => void,
): Promise<FootprintDocument> {
  const results: FootprintEntry[] = [];
  for (const transport of TRANSPORTS) {
    progress(`${transport} with ${peers} peers`);
    results.push(await measureTransport(provider, transport, peers, cpus, signal));
  }
  const of = (transport: Transport) => results.find((result) => result.transport === transport)?.bytesPerPeer ?? Number.NaN;
  return { results, ratios: { 'DC/UD': of('DC') / of('UD'), 'RC/UD': of('RC') / of('UD') } };
}

export function footprintText(document: FootprintDocument, style: Style): string {
  const head = [
    { title: 'transport' },
    { title: 'peers', align: 'right' },
    { title: 'shared memory per peer', align: 'right' },
    { title: 'in all', align: 'right' },
  ] as const;
  const rows = document.results.map((result) => [
    result.transport,
    String(result.peers),
    `${significant(result.bytesPerPeer)} B`,
    `${significant(result.bytes / 1024)} KiB`,
  ]);
  const ratios = `DC holds ${significant(document.ratios['DC/UD'])} times what UD holds, RC ${significant(document.ratios['RC/UD'])} times`;
  return `${boxTable(head, rows, style)}\n${ratios}`;
}
