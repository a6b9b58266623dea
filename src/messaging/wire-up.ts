/**
 * Wiring up: from a name or an address to an endpoint with rings and lanes.
 *
 * ```
 *   initiator                                         acceptor
 *   make ring, queue pair
 *   connect(name, hello{ring, mailbox, token}) ───>   make ring, queue pair
 *                                              <───   accept(hello{ring, mailbox, token, service})
 *   both: map or mirror the other's ring, post receives: ready
 *   connect(service, hello{lane 1, joins token}) ─>   further lanes, one connection each: several of a path, then the further paths
 * ```
 */

import { VerbsError } from '../verbs/errors.js';
import type { Connection, ConnectionRequest, MemoryRegion, QueuePair } from '../verbs/index.js';
import { MessagingError, PeerLost } from './errors.js';
import { Lane } from './lane.js';
import { type RingReader, type RingShape, type RingWriter, ringBytes } from './patterns/ring-region.js';
import type { Port } from './port.js';
import { CREDIT_REGION_BYTES, type VerbsEndpoint } from './verbs-endpoint.js';
import type { VerbsWorker } from './verbs-worker.js';
import { decodeHello, encodeHello, type Hello } from './wire/hello.js';
import { CLOSED, S_KIND } from './wire/slot.js';

/** Receives for wake-ups; in immediate mode one for every slot comes on top. */
const WAKE_RECEIVES = 16;
const SEND_DEPTH = 2048;
/** How often rings of endpoints that were closed by force are looked at. */
const RETIRED_MS = 20;

/** A way to a peer: a port here, and the name that the peer's port listens under. */
export interface Route {
  readonly port: Port;
  readonly target: string;
}

/** How often the rings are looked at again for the last messages of a peer that has ended. */
const LAST_TURNS = 64;

/** Says that a connection which this side began goes on instead of the one that was asked for. */
const CROSSING = Buffer.from('crossing');

/** Memory of the rings, memory of the credits. */
type OwnRings = readonly [MemoryRegion, MemoryRegion];

/** Rings of an endpoint that was closed while the peer could still write. */
interface Retired {
  readonly port: Port;
  readonly regions: readonly (MemoryRegion | undefined)[];
  readonly reader: RingReader;
}

export class WireUp {
  readonly #worker: VerbsWorker;
  readonly #shape: RingShape;
  readonly #immediate: boolean;
  readonly #retired = new Set<Retired>();
  /** Queue pairs that are being connected. */
  readonly #connecting = new Set<QueuePair>();
  #timer: NodeJS.Timeout | undefined;

  constructor(worker: VerbsWorker, shape: RingShape, immediate: boolean) {
    this.#worker = worker;
    this.#shape = shape;
    this.#immediate = immediate;
  }

  /** Rings whose memory is kept because the peer may still write there. */
  get retired(): number {
    return this.#retired.size;
  }

  /** Connects an endpoint by the first route; further routes carry large transfers with it. */
  async initiate(endpoint: VerbsEndpoint, routes: readonly Route[], timeoutMs: number): Promise<void> {
    const worker = this.#worker;
    const [{ port, target }] = routes;
    const qp = this.#makeQp(port);
    const rings = this.#allocate(port);
    const giveUp = () => {
      this.#discard(qp);
      free(port, rings);
    };
    endpoint.initiates = true;
    let connection: Connection;
    try {
      const privateData = this.#hello(endpoint, port, rings, { lane: 0, path: 0, paths: routes.length, joins: 0 });
      connection = await port.rail.device.connect(target, qp, { privateData, timeoutMs });
    } catch (error) {
      giveUp();
      if (!endpoint.initiates) return;
      if (!isCrossing(error)) throw error;
      await endpoint.ready({ timeoutMs }); // the peer's request is on its way
      return;
    }
    if (endpoint.state !== 'connecting' || !endpoint.initiates) {
      connection.disconnect();
      giveUp();
      return;
    }
    endpoint.initiates = false;
    const hello = decodeHello(connection.privateData);
    this.#finish(endpoint, qp, port, rings, connection, hello, routes.length);
    const perPath = Math.min(worker.laneCount, hello.lanes);
    let path = 0;
    for (const route of routes) {
      let joined = route.port === port ? 1 : 0;
      const known = { ...route, target: joined > 0 ? hello.service : route.target };
      for (let turn = joined; turn < perPath; turn++) {
        if (await this.#join(endpoint, known, path, hello.token, timeoutMs)) joined++;
        else break;
      }
      if (joined > 0) path++;
    }
    worker.becomeReady(endpoint);
  }

  /** Adds a lane. False when it cannot be had: the endpoint does without. */
  async #join(endpoint: VerbsEndpoint, route: Route, path: number, token: number, timeoutMs: number): Promise<boolean> {
    const { port, target } = route;
    const qp = this.#makeQp(port);
    const lane = endpoint.lanes.length;
    const rings: OwnRings = [endpoint.ringRegion as MemoryRegion, endpoint.creditsRegion as MemoryRegion];
    const privateData = this.#hello(endpoint, port, rings, { lane, path, paths: 0, joins: token });
    try {
      return this.#joined(endpoint, lane, qp, port, path, await port.rail.device.connect(target, qp, { privateData, timeoutMs }));
    } catch {
      this.#discard(qp);
      return false;
    }
  }

  /** A further lane is connected. False when its endpoint is not there any more. */
  #joined(endpoint: VerbsEndpoint, lane: number, qp: QueuePair, port: Port, path: number, connection: Connection): boolean {
    const { state } = endpoint;
    if (state === 'ready' || state === 'connecting') {
      this.#addLane(endpoint, lane, qp, port, path, connection);
      return true;
    }
    connection.disconnect();
    this.#discard(qp);
    return false;
  }

  #discard(qp: QueuePair): void {
    this.#connecting.delete(qp);
    qp.close();
  }

  /**
   * Answers a connection request at a port. Returns the endpoint when it is a new one.
   * @param byAddress the peer connects to this worker's address, as this worker may to the peer's.
   */
  async accept(request: ConnectionRequest, port: Port, byAddress: boolean): Promise<VerbsEndpoint | undefined> {
    const worker = this.#worker;
    let hello: Hello;
    try {
      hello = decodeHello(request.privateData);
    } catch (error) {
      request.reject(Buffer.from((error as Error).message.slice(0, 150)));
      return undefined;
    }
    if (hello.lane > 0) {
      await this.#acceptLane(request, port, hello);
      return undefined;
    }
    const { connections } = worker;
    const own = byAddress && hello.workerId !== worker.id ? connections.peers.known(hello.workerId) : undefined;
    if (own !== undefined && this.#prevails(own, hello)) {
      request.reject(CROSSING);
      return undefined;
    }
    const isNew = own?.state !== 'idle' && !own?.initiates;
    const endpoint = isNew ? connections.makeEndpoint(hello.label) : (own as VerbsEndpoint);
    if (byAddress) connections.peers.expect(endpoint, hello.workerId);
    endpoint.connect = undefined;
    endpoint.initiates = false;
    endpoint.state = 'connecting';
    const qp = this.#makeQp(port);
    const rings = this.#allocate(port);
    try {
      const answer = this.#hello(endpoint, port, rings, { lane: 0, path: 0, paths: hello.paths, joins: hello.token });
      const connection = await request.accept(qp, { privateData: answer });
      if (endpoint.state !== 'connecting') {
        connection.disconnect();
        throw new MessagingError('MSG_CLOSED', `the endpoint to ${hello.label} was closed`);
      }
      this.#finish(endpoint, qp, port, rings, connection, hello, hello.paths);
      worker.becomeReady(endpoint);
    } catch (error) {
      if (endpoint.lanes.length === 0) {
        this.#discard(qp);
        free(port, rings);
      }
      worker.endings.fail(endpoint, connectFailure(hello.label, error));
      throw error;
    }
    return isNew ? endpoint : undefined;
  }

  /** Whether this side's connection to a peer goes on where the peer's request crosses it (peers.ts). */
  #prevails(own: VerbsEndpoint, hello: Hello): boolean {
    return own.initiates ? this.#worker.id < hello.workerId : own.peerToken === hello.token;
  }

  async #acceptLane(request: ConnectionRequest, port: Port, hello: Hello): Promise<void> {
    const endpoint = this.#worker.endpoints[hello.joins];
    const isOpen = endpoint?.state === 'ready' || endpoint?.state === 'connecting';
    if (!isOpen || hello.path > endpoint.ports.length) {
      request.reject(Buffer.from('there is no such endpoint any more'));
      return;
    }
    const qp = this.#makeQp(port);
    try {
      this.#joined(endpoint, hello.lane, qp, port, hello.path, await request.accept(qp));
    } catch {
      this.#discard(qp); // the initiator gave up
    }
  }

  #isMapped(port: Port): boolean {
    return !this.#immediate && port.rail.device.capabilities.directAccess;
  }

  #makeQp(port: Port): QueuePair {
    const { rail, cq } = port;
    const qp = rail.pd.createQp({
      type: 'RC',
      sendCq: cq,
      recvCq: cq,
      maxSendWr: SEND_DEPTH,
      maxRecvWr: this.#receives(port),
      maxInline: Math.min(256, rail.device.capabilities.maxInline),
    });
    this.#connecting.add(qp);
    return qp;
  }

  #receives(port: Port): number {
    return WAKE_RECEIVES + (this.#isMapped(port) ? 0 : 2 * this.#shape.slots);
  }

  /** Memory for the rings of an endpoint, and for its credits. */
  #allocate(port: Port): OwnRings {
    const { pd, device } = port.rail;
    return [
      pd.register(device.alloc(2 * ringBytes(this.#shape)), { remoteWrite: true }),
      pd.register(device.alloc(CREDIT_REGION_BYTES), { remoteWrite: true }),
    ];
  }

  /** Gives ring memory back. Only when the peer cannot write any more. */
  #release(endpoint: VerbsEndpoint): void {
    free(endpoint.port, endpoint.takeRegions());
  }

  #hello(
    endpoint: VerbsEndpoint,
    port: Port,
    [ring, credits]: OwnRings,
    which: { readonly lane: number; readonly path: number; readonly paths: number; readonly joins: number },
  ): Uint8Array {
    const worker = this.#worker;
    return encodeHello({
      ...which,
      mapped: this.#isMapped(port),
      lanes: worker.laneCount,
      rail: port.index,
      slots: this.#shape.slots,
      bulkBytes: this.#shape.bulkBytes,
      token: endpoint.id,
      ringAddress: ring.addr,
      ringKey: ring.rkey,
      mailboxAddress: port.mailbox.region.addr,
      mailboxKey: port.mailbox.region.rkey,
      creditsAddress: credits.addr,
      creditsKey: credits.rkey,
      workerId: worker.id,
      service: port.service.target,
      label: worker.label,
    });
  }

  #finish(
    endpoint: VerbsEndpoint,
    qp: QueuePair,
    port: Port,
    rings: OwnRings,
    connection: Connection,
    hello: Hello,
    paths: number,
  ): void {
    [endpoint.ringRegion, endpoint.creditsRegion] = rings;
    const lane = this.#addLane(endpoint, 0, qp, port, 0, connection);
    endpoint.peer = hello.label;
    endpoint.peerRail = hello.rail;
    endpoint.peerToken = hello.token;
    endpoint.plannedLanes = Math.min(this.#worker.laneCount, hello.lanes) * Math.max(1, paths);
    endpoint.establish(lane, hello, this.#shape, hello.mapped && this.#isMapped(port));
    this.#worker.connections.peers.identify(endpoint, hello.workerId);
  }

  #addLane(endpoint: VerbsEndpoint, index: number, qp: QueuePair, port: Port, path: number, connection: Connection): Lane {
    const lane = new Lane(index, qp, port, path);
    this.#connecting.delete(qp);
    lane.connection = connection;
    endpoint.ports[path] = port;
    endpoint.lanes[index] = lane;
    port.lanes.set(qp.qpNum, { endpoint, lane });
    port.endpoints++;
    lane.postReceives(this.#receives(port));
    void connection.closed.then((reason) => {
      // It closed the connection after its last store, or it is dead: what it sent before stands in the ring and counts.
      try {
        if (lane.alive && index === 0) {
          endpoint.peerIsDone = true;
          for (let turn = 0; turn < LAST_TURNS && this.#worker.poller.poll() > 0; turn++);
        }
      } finally {
        this.#worker.endings.laneClosed(endpoint, lane, reason);
      }
    });
    return lane;
  }

  /**
   * Closes the queue pairs. The rings' memory is given back when the peer cannot write any more. A peer that has them mapped says so in the ring as the
   * last thing; until then they are kept, because a peer that was stopped in the middle of a store would hit whatever comes to lie there.
   */
  tearDown(endpoint: VerbsEndpoint, peerIsDone: boolean): void {
    // Where wiring up failed half way there is no ring to write to.
    const out: RingWriter | undefined = endpoint.transfersOut;
    if (endpoint.mapped && !endpoint.closedByPeer) out?.sayFarewell();
    for (const lane of endpoint.lanes) {
      if (lane === undefined) continue;
      lane.fail('the endpoint is closed');
      lane.connection?.disconnect();
      lane.port.lanes.delete(lane.qp.qpNum);
      lane.port.endpoints--;
      lane.qp.close();
    }
    if (peerIsDone || !endpoint.mapped) {
      this.#release(endpoint);
      return;
    }
    this.#retired.add({ port: endpoint.port, regions: endpoint.takeRegions(), reader: endpoint.transfersIn });
    this.#timer ??= setInterval(() => this.#sweep(), RETIRED_MS).unref();
  }

  #sweep(): void {
    for (const retired of this.#retired) {
      if (!isDone(retired.reader)) continue;
      this.#retired.delete(retired);
      free(retired.port, retired.regions);
    }
    if (this.#retired.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The worker closes: what is still kept goes with the context, what is being connected goes now. */
  close(): void {
    clearInterval(this.#timer);
    this.#retired.clear();
    for (const qp of this.#connecting) this.#discard(qp);
  }
}

/** Whether the peer of a closed endpoint has said that it writes no more: by answering CLOSE, or by its farewell. */
function isDone(reader: RingReader): boolean {
  for (let slot = reader.peek(); slot >= 0; slot = reader.peek()) {
    if ((reader.i32[slot + S_KIND] & 0xff) === CLOSED) return true;
    reader.release(0);
  }
  return reader.hasFarewell;
}

function isCrossing(error: unknown): boolean {
  return VerbsError.is(error) && error.privateData !== undefined && Buffer.from(error.privateData).equals(CROSSING);
}

function free(port: Port, regions: readonly (MemoryRegion | undefined)[]): void {
  for (const region of regions) {
    if (region === undefined) continue;
    region.deregister();
    port.rail.device.free(region.bytes.buffer as ArrayBuffer);
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
