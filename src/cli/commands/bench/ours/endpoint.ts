/**
 * One side of a Verbena measurement: a device, a queue pair, one buffer to send from and one to receive into, all requests prepared.
 *
 * ```
 *   source [ payload ]     what this side sends or reads into
 *   sink   [ payload ]     what the other side writes, reads, sends into; the receive buffer too
 * ```
 */

import type {
  CompletionQueue,
  Device,
  MemoryRegion,
  Opcode,
  PreparedRecv,
  PreparedSend,
  ProtectionDomain,
  QpAddress,
  QueuePair,
  RemoteRegion,
} from '../../../../verbs/index.js';
import { openDevice } from '../../../../verbs/open-device.js';
import { WorkCompletions } from '../../../../verbs/work-completions.js';
import { type BenchCase, type Op, SIGNAL_EVERY, WINDOW } from '../case.js';

const OPCODES: Readonly<Record<Op, Opcode>> = {
  write: 'RDMA_WRITE',
  read: 'RDMA_READ',
  send: 'SEND',
  'fetch-add': 'ATOMIC_FETCH_AND_ADD',
  'cmp-swap': 'ATOMIC_CMP_AND_SWP',
};

/** Plain JSON that the two sides exchange. */
export interface EndpointAddress {
  readonly qp: QpAddress;
  readonly sink: RemoteRegion;
}

/** Receive requests that are kept posted: more than a sender's window, so that a sender never waits for one. */
const RECEIVES = 2 * WINDOW;

export class Endpoint {
  readonly bench: BenchCase;
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly sendCq: CompletionQueue;
  readonly recvCq: CompletionQueue;
  readonly qp: QueuePair;
  readonly source: MemoryRegion;
  readonly sink: MemoryRegion;
  readonly wcs = new WorkCompletions(32);
  recv!: PreparedRecv;
  /** Messages of the next stream that came while the last one was being counted. */
  surplus = 0;
  /** Each post makes a completion. */
  single!: PreparedSend;
  /** Every 32nd post makes a completion. */
  streamed!: PreparedSend;

  private constructor(device: Device, bench: BenchCase) {
    this.device = device;
    this.bench = bench;
    this.pd = device.allocPd();
    const bytes = Math.max(8, bench.size);
    const memory = () => (bench.memory === 'arena' ? device.alloc(bytes) : new ArrayBuffer(bytes));
    const isAtomic = bench.op === 'fetch-add' || bench.op === 'cmp-swap';
    this.source = this.pd.register(memory(), { localWrite: true });
    this.sink = this.pd.register(memory(), { remoteRead: true, remoteWrite: true, remoteAtomic: isAtomic });
    this.sendCq = device.createCq({ depth: 2 * WINDOW, mode: bench.mode });
    this.recvCq = device.createCq({ depth: 2 * RECEIVES, mode: bench.mode });
    this.qp = this.pd.createQp({
      type: 'RC',
      sendCq: this.sendCq,
      recvCq: this.recvCq,
      maxSendWr: 2 * WINDOW,
      maxRecvWr: RECEIVES,
    });
  }

  static async open(provider: string, bench: BenchCase): Promise<Endpoint> {
    return new Endpoint(await openDevice(provider, { name: 'verbena bench' }), bench);
  }

  address(): EndpointAddress {
    return { qp: this.qp.address(), sink: this.sink.remote() };
  }

  /** Whether arrivals are told by a completion at the target: SEND, and WRITE when nobody polls memory. */
  get isTwoSided(): boolean {
    return this.bench.op === 'send' || (this.bench.op === 'write' && this.bench.mode !== 'poll');
  }

  async connect(peer: EndpointAddress): Promise<void> {
    await this.qp.connect(peer.qp);
    const immediate = this.bench.op === 'write' && this.bench.mode !== 'poll' && this.bench.metric === 'latency';
    const opcode: Opcode = immediate ? 'RDMA_WRITE_WITH_IMM' : OPCODES[this.bench.op];
    const remote = this.bench.op === 'send' ? undefined : peer.sink;
    this.single = this.qp.prepare({ opcode, local: this.source, remote });
    this.streamed = this.qp.prepare({ opcode, local: this.source, remote, signaledEvery: SIGNAL_EVERY });
    this.recv = this.qp.prepareRecv(this.sink);
    if (this.isTwoSided) for (let i = 0; i < RECEIVES; i++) this.repost();
  }

  /** All receive requests point to the one buffer, as the other systems have one. */
  repost(): void {
    this.recv.post(0, this.sink.length, 0);
  }

  close(): void {
    this.device.close();
  }
}
