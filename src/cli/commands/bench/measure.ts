/** One case, Verbena and the peers that can take part, start to end. */

import type { CpuPair } from '../../cpus.js';
import { alternate } from './alternate.js';
import type { BenchCase } from './case.js';
import { verbena } from './ours/verbena.js';
import { iperf3 } from './peers/iperf3.js';
import { messageport, tcp, unix, zeromq } from './peers/node-messages.js';
import { openmpi } from './peers/openmpi.js';
import { uct, ucx, ucxTcp } from './peers/ucx.js';
import { udp } from './peers/udp.js';
import { type BenchDocument, benchDocument } from './report.js';
import type { Missing, Subject } from './subject.js';

const PEERS: readonly Subject[] = [ucx, uct, ucxTcp, udp, iperf3, openmpi, zeromq, messageport, tcp, unix];

export const PEER_NAMES: readonly string[] = PEERS.map((peer) => peer.who);

export interface MeasureOptions {
  readonly provider: string;
  readonly peers: readonly string[];
  readonly rounds: number;
  /** Length of one round of one subject. */
  readonly roundMs: number;
  readonly cpus: CpuPair;
  /** Time for everything; rounds that would go over it are left out, except the first. */
  readonly budgetMs: number;
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/** Measures one case. Throws when Verbena itself fails; a peer that fails is named in the document. */
export async function measure(bench: BenchCase, options: MeasureOptions): Promise<BenchDocument> {
  const deadline = performance.now() + options.budgetMs;
  const missing: Record<string, Missing> = {};
  const skipped: Record<string, string> = {};
  const subjects = [verbena(options.provider)];
  for (const peer of PEERS.filter((candidate) => options.peers.includes(candidate.who))) {
    const reason = peer.unfit(bench);
    const lack = reason === undefined ? await peer.missing() : undefined;
    if (reason !== undefined) skipped[peer.who] = reason;
    else if (lack) missing[peer.who] = lack;
    else subjects.push(peer);
  }
  const run = await alternate(bench, subjects, { ...options, deadline });
  return benchDocument(bench, run, { missing, skipped }, options.cpus);
}
