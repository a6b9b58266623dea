/**
 * Uses another device, all its kinds of queue pairs and memory, and every way of posting, before anything is timed.
 *
 * A JavaScript engine makes a call site fast that has only ever seen one kind of object. A benchmark that does nothing else would measure that luck.
 * A real program has several queue pairs, regions and devices, so the measuring process gets them too.
 */

import type {
  CompletionQueue,
  Device,
  MemoryRegion,
  PreparedSend,
  ProtectionDomain,
  QpType,
  QueuePair,
} from '../../../../verbs/index.js';
import { openDevice } from '../../../../verbs/open-device.js';
import { WorkCompletions } from '../../../../verbs/work-completions.js';

/** Enough for the engine to have compiled what it calls. */
const TURNS = 3000;
const PAYLOAD = 32;
const GRH_BYTES = 40;
const QKEY = 0x11111111;
const DC_KEY = 7;

interface Pair {
  readonly sender: QueuePair;
  readonly receiver: QueuePair;
  readonly sendCq: CompletionQueue;
  readonly recvCq: CompletionQueue;
  readonly post: (region: MemoryRegion) => PreparedSend;
  readonly postReceive: () => void;
}

async function connectedPair(device: Device, pd: ProtectionDomain, type: 'RC' | 'UC', sink: MemoryRegion): Promise<Pair> {
  const sendCq = device.createCq({ depth: 16 });
  const recvCq = device.createCq({ depth: 32, mode: 'event' });
  const sender = pd.createQp({ type, sendCq, recvCq: sendCq, sqSigAll: true, maxSendWr: 8 });
  const receiver = pd.createQp({ type, sendCq: recvCq, recvCq, maxRecvSge: 2 });
  await sender.connect(receiver.address());
  await receiver.connect(sender.address());
  return {
    sender,
    receiver,
    sendCq,
    recvCq,
    post: (local) => sender.prepare({ opcode: 'SEND_WITH_IMM', local, inline: true }),
    postReceive: () => receiver.postRecv({ sgl: [sink.slice(0, 16), sink.slice(16, PAYLOAD - 16)], id: 1 }),
  };
}

async function datagramPair(device: Device, pd: ProtectionDomain, sink: MemoryRegion): Promise<Pair> {
  const sendCq = device.createCq({ depth: 16 });
  const recvCq = device.createCq({ depth: 16, mode: 'poll' });
  const sender = pd.createQp({ type: 'UD', sendCq, recvCq: sendCq });
  const receiver = pd.createQp({ type: 'UD', sendCq: recvCq, recvCq });
  await sender.connect(undefined, { qkey: QKEY });
  await receiver.connect(undefined, { qkey: QKEY });
  const { av, qpNum } = receiver.address();
  const ah = pd.createAh(av);
  const receive = receiver.prepareRecv(sink);
  return {
    sender,
    receiver,
    sendCq,
    recvCq,
    post: (local) => sender.prepare({ opcode: 'SEND', local, ah, remoteQpn: qpNum, remoteQkey: QKEY }),
    postReceive: () => receive.post(0, GRH_BYTES + PAYLOAD, 2),
  };
}

async function dynamicPair(device: Device, pd: ProtectionDomain, sink: MemoryRegion): Promise<Pair> {
  const sendCq = device.createCq();
  const recvCq = device.createCq();
  const srq = pd.createSrq({ maxWr: 16 });
  const sender = pd.createQp({ type: 'DCI', sendCq, recvCq: sendCq });
  const receiver = pd.createQp({ type: 'DCT', sendCq: recvCq, recvCq, srq, dcKey: DC_KEY });
  await sender.connect();
  await receiver.connect();
  const { av, qpNum } = receiver.address();
  const ah = pd.createAh(av);
  const receive = srq.prepareRecv(sink);
  return {
    sender,
    receiver,
    sendCq,
    recvCq,
    post: (local) => sender.prepare({ opcode: 'SEND', local, ah, remoteQpn: qpNum, dcKey: DC_KEY }),
    postReceive: () => receive.post(8, PAYLOAD, 3),
  };
}

async function waitFor(cq: CompletionQueue, wcs: WorkCompletions, what: string): Promise<void> {
  let n = cq.poll(wcs);
  while (n === 0) {
    await cq.ready({ timeoutMs: 5000 });
    n = cq.poll(wcs);
  }
  if (wcs.status[0] !== 0) throw new Error(`${what} before the measurement failed: ${cq.cause(wcs.causeId[0])?.words}`);
}

/** Opens a device of the provider, uses everything it has, and closes it. */
export async function makeOtherUses(provider: string): Promise<void> {
  using device = await openDevice(provider, { name: 'verbena bench, other uses' });
  const has = (type: QpType) => device.capabilities.qpTypes.includes(type);
  const pd = device.allocPd();
  const wcs = new WorkCompletions(4);
  const source = pd.register(device.alloc(4096), { localWrite: true });
  const sink = pd.register(device.alloc(8192), { remoteRead: true, remoteWrite: true, remoteAtomic: true });
  const ordinary = pd.register(new ArrayBuffer(4096), { localWrite: true });
  const pairs: [string, Pair][] = [];
  if (has('RC')) pairs.push(['RC', await connectedPair(device, pd, 'RC', sink)]);
  if (has('UC')) pairs.push(['UC', await connectedPair(device, pd, 'UC', sink)]);
  if (has('UD')) pairs.push(['UD', await datagramPair(device, pd, sink)]);
  if (has('DCI')) pairs.push(['DC', await dynamicPair(device, pd, sink)]);
  for (const [name, pair] of pairs) {
    const regions = [source, ordinary];
    const requests = regions.map((region) => pair.post(region));
    for (let i = 0; i < TURNS; i++) {
      pair.postReceive();
      const request = requests[i % requests.length];
      request.imm = i;
      request.post(i % 64, PAYLOAD, i);
      await waitFor(pair.sendCq, wcs, `${name} SEND`);
      await waitFor(pair.recvCq, wcs, `${name} receive`);
    }
  }
  const reliable = pairs.find(([name]) => name === 'RC')?.[1];
  if (!reliable) return;
  const remote = sink.remote();
  const oneSided = (['RDMA_WRITE', 'RDMA_READ', 'ATOMIC_FETCH_AND_ADD', 'ATOMIC_CMP_AND_SWP'] as const).map((opcode) =>
    reliable.sender.prepare({ opcode, local: opcode === 'RDMA_WRITE' ? ordinary : source, remote }),
  );
  for (let i = 0; i < TURNS; i++) {
    oneSided[i % oneSided.length].post(8 * (i % 64), 8, i, 16);
    await waitFor(reliable.sendCq, wcs, 'a one-sided request');
    reliable.sender.postSend({
      opcode: 'RDMA_WRITE',
      sgl: [source.slice(0, 24)],
      remoteAddr: remote.addr,
      rkey: remote.rkey,
      id: i,
    });
    await waitFor(reliable.sendCq, wcs, 'RDMA_WRITE');
  }
}
