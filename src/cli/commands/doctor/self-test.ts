/**
 * A test with real data, each step verified: every kind of operation between two devices of this process, then READs out of another
 * process, from memory of both kinds, because whether the kernel allows that cannot be known without trying.
 */

import type {
  CompletionQueue,
  Device,
  MemoryRegion,
  ProtectionDomain,
  QueuePair,
  RemoteRegion,
  SendWorkRequest,
} from '../../../verbs/index.js';
import { openDevice } from '../../../verbs/open-device.js';
import { allowedCpus } from '../../cpus.js';
import { ChildProgram } from '../bench/child-program.js';
import type { TargetOffer } from './target-process.js';

export interface SelfTestResult {
  readonly step: string;
  readonly took: number;
  /** Why it failed; absent when it passed. */
  readonly error?: string;
}

const BYTES = 4096;
const TIMEOUT_MS = 2000;

interface Side {
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly cq: CompletionQueue;
  readonly qp: QueuePair;
  readonly memory: MemoryRegion;
}

async function openSide(provider: string, name: string): Promise<Side> {
  const device = await openDevice(provider, { name });
  const pd = device.allocPd();
  const cq = device.createCq({ depth: 16 });
  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  const isAtomic = device.capabilities.atomics !== 'none';
  const memory = pd.register(device.alloc(BYTES), { remoteRead: true, remoteWrite: true, remoteAtomic: isAtomic });
  return { device, pd, cq, qp, memory };
}

function expect(condition: boolean, words: string): void {
  if (!condition) throw new Error(words);
}

async function complete(side: Side, request: SendWorkRequest): Promise<void> {
  side.qp.postSend(request);
  const completion = await side.cq.next({ timeoutMs: TIMEOUT_MS });
  expect(completion.status === 'SUCCESS', `${request.opcode} ended with ${completion.status}: ${completion.cause?.words ?? ''}`);
}

function steps(a: Side, b: Side): [name: string, act: () => Promise<void>][] {
  const text = new TextEncoder().encode('verbena was here');
  const remote = b.memory.remote();
  const at = (offset: number) => ({ remoteAddr: remote.addr + offset, rkey: remote.rkey });
  const list: [string, () => Promise<void>][] = [
    [
      'WRITE',
      async () => {
        a.memory.bytes.set(text);
        await complete(a, { opcode: 'RDMA_WRITE', sgl: [a.memory.slice(0, text.length)], ...at(64) });
        expect(Buffer.from(b.memory.bytes.subarray(64, 64 + text.length)).equals(text), 'the target holds other bytes');
      },
    ],
    [
      'READ',
      async () => {
        await complete(a, { opcode: 'RDMA_READ', sgl: [a.memory.slice(256, text.length)], ...at(64) });
        expect(Buffer.from(a.memory.bytes.subarray(256, 256 + text.length)).equals(text), 'other bytes came back');
      },
    ],
    [
      'SEND and receive',
      async () => {
        b.qp.postRecv({ sgl: [b.memory.slice(512, 64)], id: 9 });
        await complete(a, { opcode: 'SEND', sgl: [a.memory.slice(0, text.length)] });
        const arrived = await b.cq.next({ timeoutMs: TIMEOUT_MS });
        expect(arrived.status === 'SUCCESS' && arrived.id === 9 && arrived.byteLen === text.length, 'a wrong receive completion');
        expect(Buffer.from(b.memory.bytes.subarray(512, 512 + text.length)).equals(text), 'other bytes arrived');
      },
    ],
  ];
  if (a.device.capabilities.atomics !== 'none') {
    list.push([
      'fetch-and-add',
      async () => {
        const word = new BigUint64Array(b.memory.bytes.buffer, b.memory.bytes.byteOffset + 1024, 1);
        word[0] = 40n;
        await complete(a, { opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [a.memory.slice(1024, 8)], ...at(1024), add: 2n });
        const old = new BigUint64Array(a.memory.bytes.buffer, a.memory.bytes.byteOffset + 1024, 1)[0];
        expect(old === 40n && word[0] === 42n, `it returned ${old} and left ${word[0]}, instead of 40 and 42`);
      },
    ]);
  }
  if (a.device.capabilities.privateMemory) {
    list.push([
      'WRITE into an ordinary ArrayBuffer',
      async () => {
        const target = b.pd.register(new ArrayBuffer(64), { remoteWrite: true });
        const { addr, rkey } = target.remote();
        await complete(a, { opcode: 'RDMA_WRITE', sgl: [a.memory.slice(0, text.length)], remoteAddr: addr, rkey });
        expect(Buffer.from(target.bytes.subarray(0, text.length)).equals(text), 'the target holds other bytes');
      },
    ]);
  }
  list.push([
    'a wrong key is refused',
    async () => {
      a.qp.postSend({ opcode: 'RDMA_READ', sgl: [a.memory.slice(0, 8)], remoteAddr: remote.addr, rkey: remote.rkey ^ 0x5a5a });
      const { status } = await a.cq.next({ timeoutMs: TIMEOUT_MS });
      expect(status === 'REM_ACCESS_ERR', `it ended with ${status} instead of REM_ACCESS_ERR`);
    },
  ]);
  return list;
}

const TARGET = new URL('./target-process.js', import.meta.url);

/** The part with a second process. */
async function readAcross(
  provider: string,
  sides: Side[],
  attempt: (step: string, act: () => Promise<void>) => Promise<boolean>,
): Promise<void> {
  const text = 'verbena reads here';
  const child = new ChildProgram(TARGET, { cpus: allowedCpus() });
  try {
    const side = await openSide(provider, 'verbena doctor');
    sides.push(side);
    let offer: TargetOffer | undefined;
    const readFrom = async (region: RemoteRegion) => {
      side.memory.bytes.fill(0, 0, text.length);
      await complete(side, {
        opcode: 'RDMA_READ',
        sgl: [side.memory.slice(0, text.length)],
        remoteAddr: region.addr,
        rkey: region.rkey,
      });
      expect(Buffer.from(side.memory.bytes.subarray(0, text.length)).toString() === text, 'other bytes came back');
    };
    await attempt('connect to another process', async () => {
      const given = await child.request<TargetOffer>('offer', { provider, text });
      await child.request('connect', side.qp.address());
      await side.qp.connect(given.qp);
      offer = given;
    });
    if (!offer) return;
    const { arena, ordinary } = offer;
    if (!(await attempt('READ its arena memory', () => readFrom(arena)))) return;
    if (ordinary) await attempt('READ its ordinary memory', () => readFrom(ordinary));
  } finally {
    await child.close();
  }
}

/** Runs the steps in order; the first failure ends the test, because the queue pair is gone then. */
export async function selfTest(provider: string): Promise<SelfTestResult[]> {
  const results: SelfTestResult[] = [];
  const sides: Side[] = [];
  const attempt = async (step: string, act: () => Promise<void>): Promise<boolean> => {
    const start = performance.now();
    try {
      await act();
      results.push({ step, took: performance.now() - start });
      return true;
    } catch (error) {
      results.push({ step, took: performance.now() - start, error: (error as Error).message });
      return false;
    }
  };
  try {
    const connected = await attempt('connect two devices', async () => {
      for (const name of ['verbena doctor a', 'verbena doctor b']) sides.push(await openSide(provider, name));
      const [a, b] = sides;
      await a.qp.connect(b.qp.address());
      await b.qp.connect(a.qp.address());
    });
    if (!connected) return results;
    for (const [step, act] of steps(sides[0], sides[1])) if (!(await attempt(step, act))) break;
    await readAcross(provider, sides, attempt);
    return results;
  } finally {
    for (const { device } of sides) device.close();
  }
}
