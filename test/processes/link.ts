/** One end of a connection between a test and a scenario: a device, a region, a queue pair, and the JSON that the ends exchange. */

import type {
  Access,
  Completion,
  CompletionQueue,
  ConnectAttributes,
  CqInit,
  Device,
  MemoryRegion,
  PreparedSend,
  ProtectionDomain,
  QpAddress,
  QpInit,
  QueuePair,
  RemoteRegion,
} from '../../src/verbs/index.js';
import { openDevice } from '../../src/verbs/open-device.js';
import { WorkCompletions } from '../../src/verbs/work-completions.js';
import { Patience } from './patience.js';

/** What one end tells the other. */
export interface Offer {
  readonly address: QpAddress;
  readonly remote: RemoteRegion;
}

/** Requests of `runOneSided` under way at once. */
const WINDOW = 16;
const RIGHTS: Access = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };

export class Link {
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly cq: CompletionQueue;
  readonly wcs = new WorkCompletions(64);
  readonly patience = new Patience();
  region: MemoryRegion;
  qp: QueuePair;

  constructor(device: Device, memory: ArrayBuffer, init: Partial<QpInit> = {}, cqInit: CqInit = {}, rights: Access = RIGHTS) {
    this.device = device;
    this.pd = device.allocPd();
    this.cq = device.createCq({ depth: 1024, ...cqInit });
    this.region = this.pd.register(memory, rights);
    this.qp = this.makeQp(init);
  }

  /** Opens a device with `length` bytes of registered arena memory. */
  static async open(length: number, init: Partial<QpInit> = {}, cqInit: CqInit = {}): Promise<Link> {
    const device = await openDevice('shm');
    return new Link(device, device.alloc(length), init, cqInit);
  }

  makeQp(init: Partial<QpInit> = {}): QueuePair {
    return this.pd.createQp({ type: 'RC', sendCq: this.cq, recvCq: this.cq, ...init });
  }

  offer(): { address: QpAddress; remote: RemoteRegion } {
    return { address: this.qp.address(), remote: this.region.remote() };
  }

  async join(peer: Offer, attributes: ConnectAttributes = {}): Promise<void> {
    await this.qp.connect(peer.address, attributes);
  }

  /** Polls without a turn of the event loop until a completion comes. Throws after the limit, and when it is an error. */
  next(limitMs = 5000): Completion {
    const completion = this.nextAny(limitMs);
    if (completion.status !== 'SUCCESS') {
      throw new Error(
        `${completion.opcode} ${completion.id}: ${completion.status}: ${this.cq.cause(this.wcs.causeId[0])?.words}`,
      );
    }
    return completion;
  }

  /** As `next`, an error included. */
  nextAny(limitMs = 5000): Completion {
    const one = this.#one;
    const deadline = performance.now() + limitMs;
    this.patience.win();
    while (this.cq.poll(one) === 0) {
      if (performance.now() > deadline) throw new Error(`no completion within ${limitMs} ms`);
      this.patience.lose();
    }
    this.wcs.causeId[0] = one.causeId[0];
    return one.at(0);
  }
  readonly #one = new WorkCompletions(1);

  /** Posts a prepared request `count` times, at most WINDOW at once, and takes the completions, all without an object. */
  runOneSided(request: PreparedSend, length: number, count: number): void {
    let posted = 0;
    let done = 0;
    while (done < count) {
      while (posted < count && posted - done < WINDOW) {
        request.post((posted % WINDOW) * 64, length, posted, 64);
        posted++;
      }
      done += this.cq.poll(this.wcs);
    }
  }

  /** Sends `count` messages to itself, one after the other, without an object. */
  runMessages(count: number): void {
    const send = this.qp.prepare({ opcode: 'SEND', local: this.region });
    const recv = this.qp.prepareRecv(this.region);
    for (let i = 0; i < count; i++) {
      recv.post(2048, 64, i);
      send.post(0, 8, i);
      let done = 0;
      while (done < 2) done += this.cq.poll(this.wcs);
    }
  }

  /** The 64-bit words of the region. */
  get words(): BigInt64Array {
    return new BigInt64Array(this.region.bytes.buffer, this.region.bytes.byteOffset, this.region.length >> 3);
  }

  close(): void {
    this.device.close();
  }
}
