/** One of the two processes of `verbena bench rpc`: a client or a server of one of the three forms. */

import { OneSidedTable } from '../../../messaging/patterns/rpc-one-sided.js';
import { RingRpc } from '../../../messaging/patterns/rpc-ring.js';
import { TwoSidedRpc } from '../../../messaging/patterns/rpc-two-sided.js';
import type { Device, ProtectionDomain, QpAddress, QueuePair, RemoteRegion } from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { serve } from '../bench/child-program.js';
import { Patience } from '../bench/ours/patience.js';

export const RPC_FORMS = ['two-sided', 'ring', 'one-sided'] as const;
export type RpcForm = (typeof RPC_FORMS)[number];

export interface RpcOpen {
  readonly form: RpcForm;
  readonly provider: string;
  readonly size: number;
  readonly isServer: boolean;
}

export interface RpcAddress {
  readonly qp: QpAddress;
  /** The ring or the table. */
  readonly memory: RemoteRegion;
}

const RECORDS = 1024;

interface Side {
  call(turn: number): void;
  poll(): number;
}

let open: RpcOpen;
let device: Device;
let pd: ProtectionDomain;
let qp: QueuePair;
let ring: RingRpc | undefined;
let table: RemoteRegion | undefined;
let side: Side | undefined;
const request = new Uint8Array(8);

const answer = (_: Uint8Array, reply: Uint8Array) => {
  reply[0] = 1;
  return open.size;
};

async function start(options: RpcOpen): Promise<RpcAddress> {
  open = options;
  device = await openDevice(options.provider, { name: 'verbena bench rpc' });
  pd = device.allocPd();
  qp = pd.createQp({ type: 'RC', sendCq: device.createCq(), recvCq: device.createCq() });
  if (options.form === 'ring') ring = new RingRpc(device, pd, options.isServer ? answer : undefined);
  table = ring ? ring.remote() : pd.register(device.alloc(RECORDS * options.size), { remoteRead: true }).remote();
  return { qp: qp.address(), memory: table };
}

async function connect(peer: RpcAddress): Promise<void> {
  await qp.connect(peer.qp);
  if (ring) {
    ring.connect(peer.qp, peer.memory);
    const rpc = ring;
    side = { call: () => rpc.call(request), poll: () => rpc.poll() };
  } else if (open.form === 'two-sided') {
    const rpc = new TwoSidedRpc(device, pd, qp, open.isServer ? answer : undefined, { messageBytes: Math.max(64, open.size) });
    side = { call: () => rpc.call(request), poll: () => rpc.poll() };
  } else if (!open.isServer) {
    const records = new OneSidedTable(device, pd, qp, peer.memory, open.size);
    side = { call: (turn) => records.call(turn % RECORDS), poll: () => records.poll() };
  }
}

/** Makes calls; the time of one, microseconds. */
function calls(count: number): number {
  const { call, poll } = side as Side;
  const patience = new Patience();
  const begin = performance.now();
  for (let i = 0; i < count; i++) {
    call(i);
    while (poll() === 0) patience.turn();
    patience.reset();
  }
  return ((performance.now() - begin) * 1000) / count;
}

/** Answers calls; CPU time of one, microseconds. The one-sided server sleeps until it is told to stop. */
let cpuAtStart: NodeJS.CpuUsage;

serve({
  start,
  connect,
  calls,
  serveCalls: (count: number) => {
    if (side === undefined) return undefined;
    const patience = new Patience();
    const before = process.cpuUsage();
    for (let served = 0; served < count; ) {
      const n = side.poll();
      served += n;
      if (n === 0) patience.turn();
      else patience.reset();
    }
    const used = process.cpuUsage(before);
    return (used.user + used.system) / count;
  },
  beginIdle: () => {
    cpuAtStart = process.cpuUsage();
  },
  endIdle: (count: number) => {
    const used = process.cpuUsage(cpuAtStart);
    return (used.user + used.system) / count;
  },
});
