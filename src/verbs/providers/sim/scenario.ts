/**
 * A run that a seed decides from beginning to end: some devices, links, a fault plan, random operations between them, and the proof that
 * each operation happened once, in order and in the right place, or ended in a correct error. `playScenario(seed)` plays a failure again.
 *
 *     memory of a device, per peer:   [ what I send | what I read into | my receives | what the peer writes | its counter ]
 *
 * Each side knows what its operations must do to the other, because nobody else touches that part of the memory: WRITE slots are written
 * once, READs read bytes that never change, and one counter takes the additions.
 */

import { COMPLETION_OPCODES, type Opcode } from '../../opcode.js';
import type { ConnectAttributes } from '../../queue-pair.js';
import { STATUS, statusName } from '../../status.js';
import { WorkCompletions } from '../../work-completions.js';
import type { TableRegion } from '../table-region.js';
import type { SimCompletionQueue } from './completion-queue.js';
import type { SimDevice } from './device.js';
import { SimFabric } from './fabric.js';
import { type FaultPlan, randomPlan } from './fault-plan.js';
import type { SimProtectionDomain } from './protection-domain.js';
import type { SimQueuePair } from './queue-pair.js';
import { Random } from './random.js';
import type { SimSharedReceiveQueue } from './shared-receive-queue.js';

const SLOT = 3072;
const OPERATIONS = 12;
const AREA = SLOT * OPERATIONS;
const SOURCE = 0;
const LANDING = AREA;
const RECEIVES = 2 * AREA;
const TARGET = 3 * AREA;
const COUNTER = 4 * AREA;
const TOTAL = COUNTER + 64;
/** What stands where nothing may be written. */
const CANARY = 0xa5;
/** A run that has not ended after this many events hangs. */
const EVENT_LIMIT = 2_000_000;

const MIX: readonly Opcode[] = ['SEND_WITH_IMM', 'RDMA_WRITE', 'RDMA_READ', 'ATOMIC_FETCH_AND_ADD', 'RDMA_WRITE_WITH_IMM'];

/** How a run ended. */
export interface ScenarioResult {
  readonly seed: number;
  readonly plan: FaultPlan;
  readonly devices: number;
  readonly traceHash: string;
  readonly events: number;
  readonly packets: number;
  /** Sides that ended in an error, as the plan may force them to. */
  readonly failedSides: number;
  /** What was wrong, or undefined: every operation did what it must. */
  readonly fault: string | undefined;
}

/** The key of all DC targets. */
const DC_KEY = 77;

/** One side of a connection: over RC one queue pair, over DC one that sends and one that is reached. */
class Side {
  readonly device: SimDevice;
  readonly pd: SimProtectionDomain;
  readonly qp: SimQueuePair;
  /** Where receives are posted. */
  private readonly receiver: SimQueuePair | SimSharedReceiveQueue;
  /** DC: what the peer's requests name. */
  private readonly target: SimQueuePair | undefined;
  readonly cq: SimCompletionQueue;
  readonly region: TableRegion;
  readonly steps: { opcode: Opcode; length: number }[] = [];
  readonly sent: { id: number; status: number }[] = [];
  readonly received: { id: number; status: number; imm: number; byteLen: number }[] = [];
  nextReceive = 0;
  peer!: Side;

  constructor(device: SimDevice, random: Random, isDc: boolean) {
    this.device = device;
    const pd = device.allocPd();
    this.pd = pd;
    this.cq = device.createCq({ depth: 8 * OPERATIONS });
    const init = { sendCq: this.cq, recvCq: this.cq, maxSendWr: OPERATIONS, maxRecvWr: OPERATIONS };
    this.qp = pd.createQp({ ...init, type: isDc ? 'DCI' : 'RC' });
    if (isDc) {
      const srq = pd.createSrq({ maxWr: OPERATIONS });
      this.target = pd.createQp({ ...init, type: 'DCT', srq, dcKey: DC_KEY });
      this.receiver = srq;
    } else {
      this.target = undefined;
      this.receiver = this.qp;
    }
    const rights = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };
    this.region = pd.register(device.alloc(TOTAL), rights) as TableRegion;
    const { bytes } = this.region;
    bytes.fill(CANARY);
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset + SOURCE, AREA / 4);
    for (let i = 0; i < words.length; i++) words[i] = random.u32();
    bytes.fill(0, COUNTER, COUNTER + 8);
    for (let i = 0; i < OPERATIONS; i++) {
      this.steps.push({ opcode: MIX[random.below(MIX.length)], length: random.below(8) === 0 ? 0 : 1 + random.below(SLOT) });
    }
  }

  connect(attributes: ConnectAttributes): void {
    void this.qp.connect(this.target ? undefined : this.peer.qp.address(), attributes);
    void this.target?.connect(undefined, attributes);
  }

  post(i: number): void {
    const { opcode, length } = this.steps[i];
    const { region: there, target, device } = this.peer;
    const at = i * SLOT;
    const whither = target && { ah: this.pd.createAh({ gid: device.gid }), remoteQpn: target.qpNum, dcKey: DC_KEY };
    if (opcode === 'ATOMIC_FETCH_AND_ADD') {
      const sgl = [this.region.slice(LANDING + at, 8)];
      this.qp.postSend({
        opcode,
        sgl,
        id: i,
        add: BigInt(i + 1),
        remoteAddr: there.addr + COUNTER,
        rkey: there.rkey,
        ...whither,
      });
    } else if (opcode === 'RDMA_READ') {
      const sgl = [this.region.slice(LANDING + at, length)];
      this.qp.postSend({ opcode, sgl, id: i, remoteAddr: there.addr + SOURCE + at, rkey: there.rkey, ...whither });
    } else {
      const sgl = [this.region.slice(SOURCE + at, length)];
      this.qp.postSend({ opcode, sgl, id: i, imm: i, remoteAddr: there.addr + TARGET + at, rkey: there.rkey, ...whither });
    }
  }

  postReceive(i: number): void {
    this.receiver.postRecv({ sgl: [this.region.slice(RECEIVES + i * SLOT, SLOT)], id: i });
  }

  drain(wcs: WorkCompletions): void {
    for (let n = this.cq.poll(wcs); n > 0; n = this.cq.poll(wcs)) {
      for (let i = 0; i < n; i++) {
        const isReceive = COMPLETION_OPCODES[wcs.opcode[i]].startsWith('RECV');
        const entry = { id: wcs.id[i], status: wcs.status[i], imm: wcs.imm[i], byteLen: wcs.byteLen[i] };
        if (isReceive) this.received.push(entry);
        else this.sent.push(entry);
      }
    }
  }

  /** Everything is complete; what a dead device has posted is nobody's business. */
  get isDone(): boolean {
    return this.sent.length === OPERATIONS || this.device.isDead;
  }

  /** What this side's operations did wrong, or undefined. */
  fault(): string | undefined {
    const firstBad = this.sent.findIndex((c) => c.status !== STATUS.SUCCESS);
    const done = firstBad < 0 ? this.sent.length : firstBad;
    for (const [i, c] of this.sent.entries()) {
      if (c.id !== i) return `completion ${i} is of request ${c.id}`;
      if (i > done && c.status !== STATUS.WR_FLUSH_ERR)
        return `request ${i} ended with ${statusName(c.status)} after request ${done} failed`;
    }
    if (firstBad >= 0 && !ALLOWED.includes(this.sent[firstBad].status)) {
      return `request ${firstBad} ended with ${statusName(this.sent[firstBad].status)}`;
    }
    return this.messagesFault(done) ?? this.memoryFault(done);
  }

  private messagesFault(done: number): string | undefined {
    const messages = this.steps.flatMap((step, i) => (step.opcode.endsWith('_IMM') ? [i] : []));
    const arrived = this.peer.received.filter((c) => c.status === STATUS.SUCCESS);
    const least = messages.filter((i) => i < done).length;
    if (arrived.length < least) return `${least} messages succeeded and ${arrived.length} arrived`;
    if (arrived.length > messages.length) return `${arrived.length} messages arrived, more than the ${messages.length} sent`;
    for (const [n, c] of arrived.entries()) {
      const i = messages[n];
      if (c.imm !== i || c.id !== n) return `message ${n} carries ${c.imm} into buffer ${c.id}, not ${i} into ${n}`;
      if (c.byteLen !== this.steps[i].length) return `message ${i} has ${c.byteLen} bytes, not ${this.steps[i].length}`;
      if (this.steps[i].opcode !== 'SEND_WITH_IMM') continue;
      const fault = compare(this.peer.region.bytes, RECEIVES + n * SLOT, this.region.bytes, SOURCE + i * SLOT, c.byteLen);
      if (fault >= 0) return `byte ${fault} of message ${i} is wrong`;
    }
    return undefined;
  }

  private memoryFault(done: number): string | undefined {
    const mine = this.region.bytes;
    const theirs = this.peer.region.bytes;
    let counter = 0;
    for (const [i, { opcode, length }] of this.steps.entries()) {
      const at = i * SLOT;
      const isWrite = opcode.startsWith('RDMA_WRITE');
      if (i < done && isWrite) {
        const fault = compare(theirs, TARGET + at, mine, SOURCE + at, length);
        if (fault >= 0) return `byte ${fault} of WRITE ${i} is wrong`;
      }
      const end = isWrite ? length : 0;
      for (let k = end; k < SLOT; k++)
        if (theirs[TARGET + at + k] !== CANARY) return `byte ${k} of slot ${i} was written by nobody`;
      if (i < done && opcode === 'RDMA_READ') {
        const fault = compare(mine, LANDING + at, theirs, SOURCE + at, length);
        if (fault >= 0) return `byte ${fault} of READ ${i} is wrong`;
      }
      if (opcode === 'ATOMIC_FETCH_AND_ADD') {
        const found = new DataView(mine.buffer, mine.byteOffset + LANDING + at).getUint32(0, true);
        if (i < done && found !== counter) return `addition ${i} found ${found}, not ${counter}`;
        counter += i + 1;
      }
    }
    const total = new DataView(theirs.buffer, theirs.byteOffset + COUNTER).getUint32(0, true);
    if (done === OPERATIONS && total !== counter) return `the counter is ${total}, not ${counter}`;
    return undefined;
  }
}

/** Errors that faults of the network may force. */
const ALLOWED: readonly number[] = [STATUS.RETRY_EXC_ERR, STATUS.RNR_RETRY_EXC_ERR];

function compare(a: Uint8Array, aAt: number, b: Uint8Array, bAt: number, length: number): number {
  for (let i = 0; i < length; i++) if (a[aAt + i] !== b[bAt + i]) return i;
  return -1;
}

/** Plays the run of a seed. `plan` replaces the seed's own plan, for shrinking. */
export function playScenario(seed: number, plan?: FaultPlan): ScenarioResult {
  const random = new Random(seed);
  const devices = random.between(2, 4);
  const own = randomPlan(random, devices);
  const fabric = new SimFabric({
    clock: 'virtual',
    mtu: [256, 1024, 4096][random.below(3)],
    link: {
      bitsPerSecond: [1e9, 25e9, 400e9][random.below(3)],
      latencyNs: random.between(50, 5000),
      ...(random.below(4) === 0 && { queueBytes: 20_000 }),
    },
    faults: plan ?? own,
  });
  const opened = Array.from({ length: devices }, () => fabric.open());
  const sides: Side[] = [];
  for (let i = 0; i < devices; i++) {
    const isDc = random.below(4) === 0;
    const [a, b] = [new Side(opened[i], random, isDc), new Side(opened[(i + 1) % devices], random, isDc)];
    a.peer = b;
    b.peer = a;
    sides.push(a, b);
    const attributes = {
      timeout: random.between(8, 11),
      retryCnt: random.below(8) === 0 ? random.below(3) : 7,
      rnrRetry: random.below(8) === 0 ? random.below(3) : 7,
      minRnrTimer: random.between(1, 10),
    };
    for (const side of [a, b]) {
      side.connect(attributes);
      let at = 0;
      for (let n = 0; n < OPERATIONS; n++) {
        at += random.below(30_000);
        fabric.at(at, () => side.post(n));
        fabric.at(random.below(400_000), () => {
          side.postReceive(side.nextReceive++);
        });
      }
    }
  }
  const wcs = new WorkCompletions(64);
  let fault: string | undefined;
  try {
    fabric.run(() => {
      for (const side of sides) side.drain(wcs);
      return sides.every((side) => side.isDone);
    }, EVENT_LIMIT);
    const hung = sides.findIndex((side) => !side.isDone);
    if (hung >= 0)
      fault = `side ${hung}: ${sides[hung].sent.length} of ${OPERATIONS} requests completed, and nothing is left to happen`;
  } catch (error) {
    fault = error instanceof Error ? error.message : String(error);
  }
  for (const [i, side] of sides.entries()) {
    const wrong = fault === undefined ? side.fault() : undefined;
    if (wrong !== undefined) fault = `side ${i}: ${wrong}`;
  }
  const { events, packets } = fabric.counters();
  const failedSides = sides.filter((side) => side.sent.some((c) => c.status !== STATUS.SUCCESS)).length;
  return { seed, plan: fabric.faults, devices, traceHash: fabric.traceHash, events, packets, failedSides, fault };
}
