/** The two processes of the footprint measurement: a hub, and one that plays all its peers. */

import { fstatSync, readdirSync, readlinkSync } from 'node:fs';
import type { AddressHandle, CompletionQueue, Device, ProtectionDomain, QpAddress, QueuePair } from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { WorkCompletions } from '../../../verbs/work-completions.js';
import { serve } from './child-program.js';

export type Transport = 'RC' | 'DC' | 'UD';

/** What a hub tells: one address per peer for RC, none else. */
export interface HubReport {
  readonly addresses: readonly QpAddress[];
}

export interface PeerReport {
  readonly addresses: readonly QpAddress[];
  /** Inode numbers of the peers' segments, so that the hub does not count them as its own. */
  readonly inodes: readonly number[];
}

interface OpenOptions {
  readonly provider: string;
  readonly transport: Transport;
  readonly peers: number;
}

const QKEY = 0x1234;
const DC_KEY = 99;
const PAYLOAD = 32;
const GRH_BYTES = 40;

/** Pages in use of each segment that this process has open, by inode. */
function segmentBytes(): Map<number, number> {
  const sizes = new Map<number, number>();
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (!readlinkSync(`/proc/self/fd/${name}`).includes('verbena')) continue;
      const { ino, blocks } = fstatSync(Number(name));
      sizes.set(ino, blocks * 512);
    } catch {
      // the descriptor of the listing itself is gone by now
    }
  }
  return sizes;
}

function total(sizes: ReadonlyMap<number, number>, without: ReadonlySet<number>): number {
  let sum = 0;
  for (const [inode, bytes] of sizes) if (!without.has(inode)) sum += bytes;
  return sum;
}

let device: Device;
let pd: ProtectionDomain;
let cq: CompletionQueue;
let options: OpenOptions;
let baseBytes = 0;
const qps: QueuePair[] = [];

async function openHub(given: OpenOptions): Promise<HubReport> {
  options = given;
  device = await openDevice(options.provider, { name: 'verbena bench, hub' });
  pd = device.allocPd();
  cq = device.createCq({ depth: 4096 });
  baseBytes = total(segmentBytes(), new Set());
  if (options.transport !== 'RC') {
    const type = options.transport === 'UD' ? 'UD' : 'DCI';
    const qp = pd.createQp({ type, sendCq: cq, recvCq: cq });
    await qp.connect(undefined, { qkey: QKEY });
    qps.push(qp);
    return { addresses: [] };
  }
  for (let i = 0; i < options.peers; i++) qps.push(pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }));
  return { addresses: qps.map((qp) => qp.address()) };
}

async function openPeers(given: OpenOptions): Promise<PeerReport> {
  options = given;
  device = await openDevice(options.provider, { name: 'verbena bench, peers' });
  pd = device.allocPd();
  cq = device.createCq({ depth: 4096 });
  const sink = pd.register(device.alloc(4096), { localWrite: true });
  const sgl = [sink.slice(0, GRH_BYTES + PAYLOAD)];
  for (let i = 0; i < options.peers; i++) {
    if (options.transport === 'DC') {
      const srq = pd.createSrq({ maxWr: 4 });
      srq.postRecv({ sgl });
      const qp = pd.createQp({ type: 'DCT', sendCq: cq, recvCq: cq, srq, dcKey: DC_KEY });
      await qp.connect();
      qps.push(qp);
      continue;
    }
    const qp = pd.createQp({ type: options.transport, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 });
    if (options.transport === 'UD') {
      await qp.connect(undefined, { qkey: QKEY });
      qp.postRecv({ sgl });
    }
    qps.push(qp);
  }
  return { addresses: qps.map((qp) => qp.address()), inodes: [...segmentBytes().keys()] };
}

async function connectPeers(hub: readonly QpAddress[]): Promise<void> {
  if (options.transport !== 'RC') return;
  for (const [i, qp] of qps.entries()) {
    await qp.connect(hub[i]);
    qp.postRecv({ sgl: [] });
  }
}

/** The hub sends one message to every peer, then counts. */
async function talk(peers: PeerReport): Promise<{ bytes: number; baseBytes: number }> {
  const wcs = new WorkCompletions(1);
  const handles: AddressHandle[] = [];
  const message = new Uint8Array(options.transport === 'RC' ? 0 : PAYLOAD);
  for (const [i, peer] of peers.addresses.entries()) {
    const qp = options.transport === 'RC' ? qps[i] : qps[0];
    if (options.transport === 'RC') await qp.connect(peer);
    else handles.push(pd.createAh(peer.av));
    const to = options.transport === 'RC' ? {} : { ah: handles[i], remoteQpn: peer.qpNum, remoteQkey: QKEY, dcKey: DC_KEY };
    qp.postSend({ opcode: 'SEND', inlineData: message, id: i, ...to });
    while (cq.poll(wcs) === 0) await cq.ready({ timeoutMs: 5000 });
    if (wcs.status[0] !== 0) throw new Error(`message to peer ${i} failed: ${cq.cause(wcs.causeId[0])?.words}`);
  }
  return { bytes: total(segmentBytes(), new Set(peers.inodes)), baseBytes };
}

serve({ openHub, openPeers, connectPeers, talk });
