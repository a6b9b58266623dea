/**
 * Wiring up: from a name or an address to an endpoint with rings and lanes.
 *
 * ```
 *   initiator                                         acceptor
 *   make ring, queue pair
 *   connect(name, hello{ring, mailbox, token}) ───>   make ring, queue pair
 *                                              <───   accept(hello{ring, mailbox, token, service})
 *   both: map or mirror the other's ring, post receives: ready
 *   connect(service, hello{lane 1, joins token}) ─>   further lanes, one connection each
 * ```
 */

import type { Connection, ConnectionRequest, MemoryRegion, QueuePair } from '../verbs/index.js';
import { CREDIT_BYTES, type Endpoint } from './endpoint.js';
import { MessagingError, PeerLost } from './errors.js';
import { Lane } from './lane.js';
import { type RingShape, ringBytes } from './patterns/ring-region.js';
import { decodeHello, encodeHello, type Hello } from './wire/hello.js';
import type { Worker } from './worker.js';

/** Receives for wake-ups; in immediate mode one for every slot comes on top. */
const WAKE_RECEIVES = 16;
const SEND_DEPTH = 2048;

export class WireUp {
  readonly #worker: Worker;
  readonly #shape: RingShape;
  readonly #immediate: boolean;

  constructor(worker: Worker, shape: RingShape, immediate: boolean) {
    this.#worker = worker;
    this.#shape = shape;
    this.#immediate = immediate || !worker.context.device.capabilities.directAccess;
  }

  /** Connects an endpoint that was made for a name. */
  async initiate(endpoint: Endpoint, name: string, timeoutMs: number): Promise<void> {
    const worker = this.#worker;
    const { device } = worker.context;
    const qp = this.#makeQp();
    this.#allocate(endpoint);
    let connection: Connection;
    try {
      connection = await device.connect(name, qp, { privateData: this.#hello(endpoint, 0, 0), timeoutMs });
    } catch (error) {
      qp.close();
      this.#release(endpoint);
      throw error;
    }
    const hello = decodeHello(connection.privateData);
    this.#finish(endpoint, qp, connection, hello);
    for (let lane = 1; lane < Math.min(worker.laneCount, hello.lanes); lane++) {
      const further = this.#makeQp();
      const joined = await device.connect(hello.service, further, {
        privateData: this.#hello(endpoint, lane, hello.token),
        timeoutMs,
      });
      this.#addLane(endpoint, lane, further, joined);
    }
    worker.becomeReady(endpoint);
  }

  /** Answers a connection request. Returns the endpoint, or undefined when it was a further lane or nothing of ours. */
  async accept(request: ConnectionRequest): Promise<Endpoint | undefined> {
    const worker = this.#worker;
    let hello: Hello;
    try {
      hello = decodeHello(request.privateData);
    } catch (error) {
      request.reject(Buffer.from((error as Error).message.slice(0, 150)));
      return undefined;
    }
    const qp = this.#makeQp();
    if (hello.lane > 0) {
      const endpoint = worker.endpoints[hello.joins];
      if (endpoint === undefined) {
        request.reject(Buffer.from('there is no such endpoint any more'));
        return undefined;
      }
      this.#addLane(endpoint, hello.lane, qp, await request.accept(qp));
      return undefined;
    }
    const endpoint = worker.makeEndpoint(hello.label);
    endpoint.state = 'connecting';
    this.#allocate(endpoint);
    try {
      const connection = await request.accept(qp, { privateData: this.#hello(endpoint, 0, hello.token) });
      this.#finish(endpoint, qp, connection, hello);
      worker.becomeReady(endpoint);
    } catch (error) {
      if (endpoint.lanes.length > 0) {
        worker.fail(endpoint, connectFailure(hello.label, error));
        throw error;
      }
      qp.close();
      this.#release(endpoint);
      endpoint.state = 'failed';
      throw error;
    }
    return endpoint;
  }

  #makeQp(): QueuePair {
    const { context, cq } = this.#worker;
    return context.pd.createQp({
      type: 'RC',
      sendCq: cq,
      recvCq: cq,
      maxSendWr: SEND_DEPTH,
      maxRecvWr: this.#receives,
      maxInline: Math.min(256, context.device.capabilities.maxInline),
    });
  }

  get #receives(): number {
    return WAKE_RECEIVES + (this.#immediate ? 2 * this.#shape.slots : 0);
  }

  #allocate(endpoint: Endpoint): void {
    const { pd, device } = this.#worker.context;
    endpoint.ringRegion = pd.register(device.alloc(2 * ringBytes(this.#shape)), { remoteWrite: true });
    endpoint.creditsRegion = pd.register(device.alloc(CREDIT_BYTES), { remoteWrite: true });
  }

  /** Gives ring memory back. Only when the peer cannot write any more. */
  #release(endpoint: Endpoint): void {
    const { device } = this.#worker.context;
    for (const region of [endpoint.ringRegion, endpoint.creditsRegion, endpoint.mirrorRegion]) {
      if (region === undefined) continue;
      region.deregister();
      device.free(region.bytes.buffer as ArrayBuffer);
    }
    endpoint.ringRegion = undefined;
    endpoint.creditsRegion = undefined;
    endpoint.mirrorRegion = undefined;
  }

  #hello(endpoint: Endpoint, lane: number, joins: number): Uint8Array {
    const worker = this.#worker;
    const ring = endpoint.ringRegion as MemoryRegion;
    const credits = endpoint.creditsRegion as MemoryRegion;
    return encodeHello({
      mapped: !this.#immediate,
      lanes: worker.laneCount,
      lane,
      slots: this.#shape.slots,
      bulkBytes: this.#shape.bulkBytes,
      joins,
      token: endpoint.id,
      ringAddress: ring.addr,
      ringKey: ring.rkey,
      mailboxAddress: worker.mailbox.addr,
      mailboxKey: worker.mailbox.rkey,
      creditsAddress: credits.addr,
      creditsKey: credits.rkey,
      workerId: worker.id,
      service: worker.service,
      label: worker.label,
    });
  }

  #finish(endpoint: Endpoint, qp: QueuePair, connection: Connection, hello: Hello): void {
    const lane = this.#addLane(endpoint, 0, qp, connection);
    endpoint.peer = hello.label;
    endpoint.plannedLanes = Math.min(this.#worker.laneCount, hello.lanes);
    endpoint.establish(lane, hello, this.#shape, hello.mapped && !this.#immediate);
    this.#worker.identify(endpoint, hello.workerId);
  }

  #addLane(endpoint: Endpoint, index: number, qp: QueuePair, connection: Connection): Lane {
    const worker = this.#worker;
    const lane = new Lane(index, qp, worker.scratch, 1);
    lane.connection = connection;
    endpoint.lanes[index] = lane;
    worker.addLane(endpoint, lane);
    lane.postReceives(this.#receives);
    void connection.closed.then((reason) => worker.laneClosed(endpoint, lane, reason));
    return lane;
  }

  /**
   * Closes the queue pairs. The rings' memory is given back when the peer cannot write any more; else it is kept until the context closes, because a
   * peer that was stopped in the middle of a store would hit whatever comes to lie there.
   */
  tearDown(endpoint: Endpoint, peerIsDone: boolean): void {
    for (const lane of endpoint.lanes) {
      if (lane === undefined) continue;
      lane.fail('the endpoint is closed');
      lane.connection?.disconnect();
      this.#worker.removeLane(lane);
      lane.qp.close();
    }
    if (peerIsDone) this.#release(endpoint);
  }
}

/** What a failed connection attempt means to those who waited for it. */
export function connectFailure(peer: string, error: unknown): Error {
  const code = (error as { code?: string }).code;
  const words = error instanceof Error ? error.message : String(error);
  if (MessagingError.is(error)) return error;
  if (code === 'VERBS_REFUSED') return new MessagingError('MSG_REFUSED', `${peer} refused: ${words}`, error);
  if (code === 'VERBS_TIMEOUT') return new MessagingError('MSG_TIMEOUT', `${peer} did not answer: ${words}`, error);
  return new PeerLost(peer, 'connecting', words);
}
