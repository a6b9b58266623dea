/**
 * Connections by name on a simulated device: the names stand in a directory of the fabric, the handshake runs as CM messages on the wire.
 *
 *     connect(name) ── directory: device, service id ── REQ ──> listener ── accept ── REP ──> ... RTU
 *
 * Private data is preceded by its length, because the wire carries a fixed number of bytes.
 */

import {
  type Connection,
  type ConnectionRequest,
  type ConnectOptions,
  type Listener,
  MAX_PRIVATE_DATA,
} from '../../connection.js';
import { VerbsError } from '../../errors.js';
import { PATH_MTUS } from '../../qp-state.js';
import type { QpAddress } from '../../queue-pair.js';
import { CmAgent, type CmHost } from '../../transport/cm-agent.js';
import { type CmRep, type CmReq, RejectReason } from '../../transport/cm-messages.js';
import type { Packet } from '../../transport/packet.js';
import { mtuCode } from '../../transport/segmentation.js';
import type { SimDevice } from './device.js';
import type { Frame } from './frame.js';
import type { SimQueuePair } from './queue-pair.js';

const DEFAULT_TIMEOUT_MS = 5000;
/** 4.096 us x 2^16, about 0.27 s, between repetitions. */
const RESPONSE_CODE = 16;
const MAX_NAME = 255;

function framed(data: Uint8Array = new Uint8Array(0)): Uint8Array {
  if (data.length > MAX_PRIVATE_DATA) {
    throw new VerbsError('VERBS_INVALID', `${data.length} bytes of private data: at most ${MAX_PRIVATE_DATA} fit`);
  }
  return Uint8Array.of(data.length, ...data);
}

function unframed(data: Uint8Array): Uint8Array {
  return Uint8Array.from(data.subarray(1, 1 + (data[0] ?? 0)));
}

class SimConnection implements Connection {
  readonly qp: SimQueuePair;
  readonly privateData: Uint8Array;
  readonly closed: Promise<string>;
  private readonly act: () => void;
  private end!: (reason: string) => void;

  constructor(qp: SimQueuePair, privateData: Uint8Array, disconnect: () => void) {
    this.qp = qp;
    this.privateData = privateData;
    this.act = disconnect;
    this.closed = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  disconnect(): void {
    this.act();
    this.over('this side disconnected');
  }

  over(reason: string): void {
    this.qp.stop();
    this.end(reason);
  }
}

class SimRequest implements ConnectionRequest {
  readonly privateData: Uint8Array;
  readonly id: number;
  readonly request: CmReq;
  readonly source: number;
  readonly listener: SimListener;
  private readonly manager: ConnectionManager;

  constructor(manager: ConnectionManager, listener: SimListener, id: number, request: CmReq, source: number) {
    this.manager = manager;
    this.listener = listener;
    this.id = id;
    this.request = request;
    this.source = source;
    this.privateData = unframed(request.privateData);
  }

  accept(qp: SimQueuePair, options: ConnectOptions = {}): Promise<Connection> {
    return this.manager.accept(this, qp, options);
  }

  reject(privateData?: Uint8Array): void {
    this.manager.reject(this, privateData);
  }
}

interface Acceptor {
  resolve(request: ConnectionRequest): void;
  reject(error: unknown): void;
}

class SimListener implements Listener {
  readonly name: string;
  readonly target: string;
  readonly serviceId: bigint;
  /** Requests that nobody has taken, and those taken and not answered. */
  readonly waiting: SimRequest[] = [];
  readonly open = new Set<SimRequest>();
  readonly acceptors: Acceptor[] = [];
  isClosed = false;
  private readonly device: SimDevice;
  private readonly manager: ConnectionManager;

  constructor(manager: ConnectionManager, device: SimDevice, name: string, serviceId: bigint) {
    this.manager = manager;
    this.device = device;
    this.name = name;
    this.target = name;
    this.serviceId = serviceId;
  }

  offer(request: SimRequest): void {
    this.open.add(request);
    const acceptor = this.acceptors.shift();
    if (acceptor) acceptor.resolve(request);
    else this.waiting.push(request);
  }

  accept(options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<ConnectionRequest> {
    if (this.isClosed) return Promise.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' is closed`));
    const request = this.waiting.shift();
    if (request) return Promise.resolve(request);
    return this.device.wait<ConnectionRequest>(options, 'no connection request', (acceptor) => {
      this.acceptors.push(acceptor);
      return () => {
        const at = this.acceptors.indexOf(acceptor);
        if (at >= 0) this.acceptors.splice(at, 1);
      };
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ConnectionRequest, void, undefined> {
    while (!this.isClosed) yield await this.accept();
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.manager.unlisten(this);
    for (const request of [...this.open]) request.reject();
    for (const acceptor of this.acceptors.splice(0)) {
      acceptor.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' was closed`));
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

interface Pending {
  readonly qp: SimQueuePair;
  readonly options: ConnectOptions;
  readonly peer: SimDevice;
  readonly name: string;
  resolve(connection: Connection): void;
  reject(error: unknown): void;
}

export class ConnectionManager implements CmHost {
  private readonly device: SimDevice;
  private readonly agent: CmAgent;
  private readonly listeners = new Map<bigint, SimListener>();
  private readonly requests = new Map<number, SimRequest>();
  /** Active side: connects that wait for an answer. Passive side: accepts that wait for the RTU. */
  private readonly pending = new Map<number, Pending>();
  private readonly connections = new Map<number, SimConnection>();
  private timerAt = Number.POSITIVE_INFINITY;
  private readonly timer = { happen: (): void => this.timerFired() };

  constructor(device: SimDevice) {
    this.device = device;
    this.agent = new CmAgent(this, device.fabric.random.u32());
  }

  listen(name: string): SimListener {
    const { fabric } = this.device;
    if (typeof name !== 'string' || name.length === 0 || name.length > MAX_NAME || name.includes('\0')) {
      throw new VerbsError('VERBS_INVALID', `a name has 1 to ${MAX_NAME} characters and no NUL`);
    }
    if (fabric.names.has(name)) throw new VerbsError('VERBS_BUSY', `somebody listens under '${name}' already`);
    const listener = new SimListener(this, this.device, name, fabric.newServiceId());
    fabric.names.set(name, { device: this.device, serviceId: listener.serviceId });
    this.listeners.set(listener.serviceId, listener);
    this.agent.listen(listener.serviceId);
    return listener;
  }

  unlisten(listener: SimListener): void {
    this.device.fabric.names.delete(listener.name);
    this.listeners.delete(listener.serviceId);
    this.agent.unlisten(listener.serviceId);
  }

  connect(name: string, qp: SimQueuePair, options: ConnectOptions): Promise<Connection> {
    const { fabric } = this.device;
    const privateData = framed(options.privateData);
    const there = fabric.names.get(name);
    if (there === undefined) {
      return Promise.reject(new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${name}': start the listener first`));
    }
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    return this.device.wait<Connection>({ timeoutMs, signal }, `'${name}' did not answer`, (waiter) => {
      const own = qp.address();
      const id = this.agent.connect(
        there.device.index,
        {
          serviceId: there.serviceId,
          localGuid: BigInt(this.device.index),
          queueKey: 0,
          qpNum: own.qpNum,
          responderResources: options.attributes?.maxDestRdAtomic ?? 16,
          initiatorDepth: options.attributes?.maxRdAtomic ?? 16,
          remoteResponseTimeout: RESPONSE_CODE,
          service: own.type === 'UC' ? 1 : 0,
          flowControl: 0,
          startingPsn: own.psn,
          localResponseTimeout: RESPONSE_CODE,
          retryCount: options.attributes?.retryCnt ?? 7,
          partitionKey: 0xffff,
          mtuCode: mtuCode(own.mtu),
          rnrRetry: options.attributes?.rnrRetry ?? 7,
          maxCmRetries: 15,
          hasSrq: 0,
          localLid: 0xffff,
          remoteLid: 0xffff,
          localGid: this.device.gidBytes,
          remoteGid: there.device.gidBytes,
          flowLabel: 0,
          packetRate: 3,
          trafficClass: 0,
          hopLimit: 64,
          serviceLevel: 0,
          isSubnetLocal: 0,
          ackTimeout: options.attributes?.timeout ?? 14,
          privateData,
        },
        fabric.nowNs,
      );
      this.pending.set(id, { qp, options, peer: there.device, name, ...waiter });
      this.kick();
      return () => {
        // Gave up: the other side learns it.
        if (this.pending.delete(id)) {
          this.agent.disconnect(id, fabric.nowNs);
          this.kick();
        }
      };
    });
  }

  async accept(request: SimRequest, qp: SimQueuePair, options: ConnectOptions): Promise<Connection> {
    const privateData = framed(options.privateData);
    const { request: req, id } = request;
    const { fabric } = this.device;
    if (!this.requests.has(id))
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up, or the request was answered already');
    const peer = fabric.devices[request.source];
    await qp.connectManaged(
      addressOf(peer, req.qpNum, req.startingPsn, PATH_MTUS[req.mtuCode - 1], req.service),
      options.attributes,
    );
    const own = qp.address();
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    this.forget(request);
    return this.device.wait<Connection>({ timeoutMs, signal }, 'the initiator did not confirm', (waiter) => {
      this.pending.set(id, { qp, options, peer, name: '', ...waiter });
      this.agent.accept(
        id,
        {
          queueKey: 0,
          qpNum: own.qpNum,
          startingPsn: own.psn,
          responderResources: options.attributes?.maxDestRdAtomic ?? 16,
          initiatorDepth: options.attributes?.maxRdAtomic ?? 16,
          targetAckDelay: 0,
          failover: 0,
          flowControl: 0,
          rnrRetry: options.attributes?.rnrRetry ?? 7,
          hasSrq: 0,
          localGuid: BigInt(this.device.index),
          privateData,
        },
        fabric.nowNs,
      );
      this.kick();
      return () => {
        if (this.pending.delete(id)) this.agent.disconnect(id, fabric.nowNs);
      };
    });
  }

  reject(request: SimRequest, privateData?: Uint8Array): void {
    const data = framed(privateData);
    if (!this.requests.has(request.id)) return;
    this.forget(request);
    this.agent.reject(request.id, this.device.fabric.nowNs, data);
    this.kick();
  }

  private forget(request: SimRequest): void {
    this.requests.delete(request.id);
    request.listener.open.delete(request);
    const at = request.listener.waiting.indexOf(request);
    if (at >= 0) request.listener.waiting.splice(at, 1);
  }

  connectRequest(id: number, req: CmReq, source: number): void {
    const listener = this.listeners.get(req.serviceId);
    if (listener === undefined) return;
    const request = new SimRequest(this, listener, id, req, source);
    this.requests.set(id, request);
    listener.offer(request);
  }

  established(id: number, reply: CmRep | undefined): void {
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    const { qp, options, peer } = pending;
    const connection = new SimConnection(qp, reply ? unframed(reply.privateData) : new Uint8Array(0), () => {
      this.agent.disconnect(id, this.device.fabric.nowNs);
      this.kick();
    });
    this.connections.set(id, connection);
    if (reply === undefined) {
      pending.resolve(connection);
      return;
    }
    const service = qp.type === 'UC' ? 1 : 0;
    qp.connectManaged(addressOf(peer, reply.qpNum, reply.startingPsn, this.device.fabric.mtu, service), options.attributes).then(
      () => pending.resolve(connection),
      pending.reject,
    );
  }

  rejected(id: number, reason: number, privateData: Uint8Array): void {
    const request = this.requests.get(id);
    if (request) this.forget(request);
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    if (reason === RejectReason.timeout) {
      pending.reject(new VerbsError('VERBS_TIMEOUT', 'the other side did not answer, or has given up'));
    } else if (reason === RejectReason.invalidServiceId) {
      pending.reject(new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${pending.name}' any more`));
    } else {
      pending.reject(
        new VerbsError('VERBS_REFUSED', `'${pending.name}' refused the connection`, { privateData: unframed(privateData) }),
      );
    }
  }

  disconnected(id: number): void {
    this.connections.get(id)?.over('the peer disconnected');
    this.connections.delete(id);
  }

  receive(p: Packet, frame: Frame): void {
    this.agent.receive(p, frame.bytes, this.device.fabric.nowNs, frame.from);
    this.kick();
  }

  private kick(): void {
    const { fabric } = this.device;
    for (;;) {
      const frame = fabric.spare;
      frame.length = this.agent.next(frame.bytes, frame.at);
      if (frame.length === 0) break;
      fabric.send(this.device, this.agent.destination);
    }
    const { deadline } = this.agent;
    if (deadline >= this.timerAt) return;
    this.timerAt = deadline;
    fabric.schedule(deadline, this.timer);
  }

  private timerFired(): void {
    const { fabric, isClosed } = this.device;
    if (fabric.nowNs < this.timerAt || isClosed) return;
    this.timerAt = Number.POSITIVE_INFINITY;
    this.agent.tick(fabric.nowNs);
    this.kick();
  }

  /** The device is going: peers learn it, listeners are gone. */
  close(): void {
    for (const listener of [...this.listeners.values()]) listener.close();
    const now = this.device.fabric.nowNs;
    for (const [id, connection] of [...this.connections]) {
      this.agent.disconnect(id, now);
      connection.over('the device was closed');
    }
    for (const pending of [...this.pending.values()]) pending.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
    this.kick();
  }
}

function addressOf(peer: SimDevice, qpNum: number, psn: number, mtu: number, service: number): QpAddress {
  const type = service === 1 ? 'UC' : 'RC';
  return { v: 1, provider: 'sim', av: { gid: peer.gid }, qpNum, psn, mtu, type };
}
