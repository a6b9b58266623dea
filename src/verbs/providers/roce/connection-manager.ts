/**
 * Connections by name on a RoCE device. The handshake runs as CM messages in the engine (so that repetitions are answered while this
 * thread is busy); here are the promises, and the queue pairs that move along.
 */

import type { Connection, ConnectionRequest, ConnectOptions, Listener } from '../../connection.js';
import { VerbsError } from '../../errors.js';
import { PATH_MTUS } from '../../qp-state.js';
import type { QpAddress } from '../../queue-pair.js';
import { gidOfAddress } from '../../transport/cm-ip.js';
import { type CmRep, type CmReq, RejectReason } from '../../transport/cm-messages.js';
import { mtuCode } from '../../transport/segmentation.js';
import { endOf, gidText, ROCE_PORT } from './address.js';
import type { RoceDevice, Waiter } from './device.js';
import { Directory } from './directory.js';
import type { End, Notice } from './messages.js';
import type { RoceQueuePair } from './queue-pair.js';
import { answerData, answerDataOf, checkName, parseTarget, requestData, requestDataOf, serviceOf, targetOf } from './service.js';

const DEFAULT_TIMEOUT_MS = 5000;
/** 4.096 us x 2^16, about 0.27 s, between repetitions. */
const RESPONSE_CODE = 16;

class RoceConnection implements Connection {
  readonly qp: RoceQueuePair;
  readonly privateData: Uint8Array;
  readonly closed: Promise<string>;
  private readonly act: () => void;
  private end!: (reason: string) => void;

  constructor(qp: RoceQueuePair, privateData: Uint8Array, disconnect: () => void) {
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

class RoceRequest implements ConnectionRequest {
  readonly privateData: Uint8Array;
  readonly id: number;
  readonly request: CmReq;
  readonly end: End;
  readonly listener: RoceListener;
  private readonly manager: ConnectionManager;

  constructor(manager: ConnectionManager, listener: RoceListener, id: number, request: CmReq, end: End) {
    this.manager = manager;
    this.listener = listener;
    this.id = id;
    this.request = request;
    this.end = end;
    this.privateData = requestDataOf(request.serviceId, request.privateData);
  }

  accept(qp: RoceQueuePair, options: ConnectOptions = {}): Promise<Connection> {
    return this.manager.accept(this, qp, options);
  }

  reject(privateData?: Uint8Array): void {
    this.manager.reject(this, privateData);
  }
}

class RoceListener implements Listener {
  readonly name: string;
  readonly target: string;
  readonly serviceId: bigint;
  /** Requests that nobody has taken, and those taken and not answered. */
  readonly waiting: RoceRequest[] = [];
  readonly open = new Set<RoceRequest>();
  private readonly acceptors = new Set<Waiter<ConnectionRequest>>();
  private readonly device: RoceDevice;
  private readonly manager: ConnectionManager;
  private isClosed = false;

  constructor(manager: ConnectionManager, device: RoceDevice, name: string, serviceId: bigint) {
    this.manager = manager;
    this.device = device;
    this.name = name;
    this.target = targetOf({ address: device.address, port: device.port }, name);
    this.serviceId = serviceId;
  }

  offer(request: RoceRequest): void {
    this.open.add(request);
    const [acceptor] = this.acceptors;
    if (acceptor) acceptor.resolve(request);
    else this.waiting.push(request);
  }

  accept(options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<ConnectionRequest> {
    if (this.isClosed) return Promise.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' is closed`));
    const request = this.waiting.shift();
    if (request) return Promise.resolve(request);
    return this.device.wait<ConnectionRequest>(options, 'no connection request', (acceptor) => {
      this.acceptors.add(acceptor);
      return () => this.acceptors.delete(acceptor);
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
    for (const acceptor of [...this.acceptors]) {
      acceptor.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' was closed`));
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

interface Pending extends Waiter<Connection> {
  readonly qp: RoceQueuePair;
  readonly options: ConnectOptions;
  readonly end: End;
  readonly serviceId: bigint;
  readonly name: string;
}

type CmNotice = Extract<Notice, { kind: 'connectRequest' | 'established' | 'rejected' | 'disconnected' }>;

export class ConnectionManager {
  private readonly device: RoceDevice;
  private readonly directory: Directory;
  private readonly listeners = new Map<bigint, RoceListener>();
  private readonly requests = new Map<number, RoceRequest>();
  /** Active side: connects that wait for an answer. Passive side: accepts that wait for the RTU. */
  private readonly pending = new Map<number, Pending>();
  private readonly connections = new Map<number, RoceConnection>();

  constructor(device: RoceDevice) {
    this.device = device;
    this.directory = new Directory('roce');
  }

  listen(name: string): RoceListener {
    checkName(name);
    const { device } = this;
    const serviceId = serviceOf(name);
    this.directory.add(name, { gid: device.gid, port: device.port });
    const listener = new RoceListener(this, device, name, serviceId);
    this.listeners.set(serviceId, listener);
    device.call({ kind: 'listen', serviceId });
    return listener;
  }

  unlisten(listener: RoceListener): void {
    this.directory.remove(listener.name);
    this.listeners.delete(listener.serviceId);
    this.device.call({ kind: 'unlisten', serviceId: listener.serviceId });
  }

  async connect(name: string, qp: RoceQueuePair, options: ConnectOptions): Promise<Connection> {
    checkName(name);
    const { device } = this;
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    const target = parseTarget(name);
    const there = target.end ?? endOf(await this.directory.find(name, timeoutMs));
    const serviceId = serviceOf(target.service);
    const self: End = { address: device.address, port: device.port };
    const privateData = requestData(serviceId, options.privateData ?? new Uint8Array(0), self, there);
    return device.wait<Connection>({ timeoutMs, signal }, `'${name}' did not answer`, (waiter) => {
      const own = qp.address();
      const id = device.call({
        kind: 'connect',
        end: there,
        request: {
          serviceId,
          localGuid: guidOf(device.address),
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
          localGid: gidOfAddress(device.address),
          remoteGid: gidOfAddress(there.address),
          flowLabel: 0,
          packetRate: 3,
          trafficClass: 0,
          hopLimit: 64,
          serviceLevel: 0,
          isSubnetLocal: 0,
          ackTimeout: options.attributes?.timeout ?? 14,
          privateData,
        },
      }) as number;
      this.pending.set(id, { qp, options, end: there, serviceId, name, ...waiter });
      return () => {
        // Gave up: the other side learns it.
        if (this.pending.delete(id)) this.tell(id);
      };
    });
  }

  async accept(request: RoceRequest, qp: RoceQueuePair, options: ConnectOptions): Promise<Connection> {
    const { request: req, id, end } = request;
    const privateData = answerData(req.serviceId, options.privateData);
    this.device.progress();
    if (!this.requests.has(id)) {
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up, or the request was answered already');
    }
    const theirs = PATH_MTUS[req.mtuCode - 1] ?? 0;
    if (theirs > this.device.capabilities.mtu) {
      this.reject(request, undefined, RejectReason.invalidMtu);
      throw new VerbsError(
        'VERBS_INVALID',
        `the initiator wants a path MTU of ${theirs} bytes, and this device's interface carries ${this.device.capabilities.mtu}`,
      );
    }
    await qp.connectManaged(peerOf(end, req.qpNum, req.startingPsn, theirs, req.service), options.attributes);
    const own = qp.address();
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    this.forget(request);
    return this.device.wait<Connection>({ timeoutMs, signal }, 'the initiator did not confirm', (waiter) => {
      this.pending.set(id, { qp, options, end, serviceId: req.serviceId, name: '', ...waiter });
      this.device.call({
        kind: 'accept',
        id,
        reply: {
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
          localGuid: guidOf(this.device.address),
          privateData,
        },
      });
      return () => {
        if (this.pending.delete(id)) this.tell(id);
      };
    });
  }

  reject(request: RoceRequest, data?: Uint8Array, reason: number = RejectReason.consumer): void {
    const privateData = answerData(request.request.serviceId, data);
    if (!this.requests.has(request.id)) return;
    this.forget(request);
    this.device.call({ kind: 'reject', id: request.id, privateData, reason });
  }

  private forget(request: RoceRequest): void {
    this.requests.delete(request.id);
    request.listener.open.delete(request);
    const at = request.listener.waiting.indexOf(request);
    if (at >= 0) request.listener.waiting.splice(at, 1);
  }

  private tell(id: number): void {
    if (!this.device.isClosed) this.device.call({ kind: 'disconnect', id });
  }

  noticed(notice: CmNotice): void {
    switch (notice.kind) {
      case 'connectRequest':
        this.requested(notice.id, notice.request, notice.end);
        return;
      case 'established':
        this.established(notice.id, notice.reply);
        return;
      case 'rejected':
        this.rejected(notice.id, notice.reason, notice.privateData);
        return;
      case 'disconnected':
        this.connections.get(notice.id)?.over('the peer disconnected');
        this.connections.delete(notice.id);
    }
  }

  private requested(id: number, request: CmReq, end: End): void {
    const listener = this.listeners.get(request.serviceId);
    if (listener === undefined) return;
    const asked = new RoceRequest(this, listener, id, request, end);
    this.requests.set(id, asked);
    listener.offer(asked);
  }

  private established(id: number, reply: CmRep | undefined): void {
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    const { qp, options, end, serviceId } = pending;
    const data = reply ? answerDataOf(serviceId, reply.privateData) : new Uint8Array(0);
    const connection = new RoceConnection(qp, data, () => this.tell(id));
    this.connections.set(id, connection);
    if (reply === undefined) {
      pending.resolve(connection);
      return;
    }
    const { mtu } = this.device.capabilities;
    qp.connectManaged(peerOf(end, reply.qpNum, reply.startingPsn, mtu, qp.type === 'UC' ? 1 : 0), options.attributes).then(
      () => pending.resolve(connection),
      pending.reject,
    );
  }

  private rejected(id: number, reason: number, privateData: Uint8Array): void {
    const request = this.requests.get(id);
    if (request) this.forget(request);
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    if (reason === RejectReason.timeout) {
      pending.reject(new VerbsError('VERBS_TIMEOUT', 'the other side did not answer, or has given up'));
    } else if (reason === RejectReason.invalidServiceId) {
      pending.reject(new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${pending.name}' there`));
    } else if (reason === RejectReason.invalidMtu) {
      const { mtu } = this.device.capabilities;
      const words = `'${pending.name}' cannot take packets of this device's path MTU, ${mtu} bytes: open both on interfaces of equal MTU`;
      pending.reject(new VerbsError('VERBS_REFUSED', words));
    } else {
      const data = answerDataOf(pending.serviceId, privateData);
      pending.reject(new VerbsError('VERBS_REFUSED', `'${pending.name}' refused the connection`, { privateData: data }));
    }
  }

  /** The device is going: peers learn it, listeners are gone. */
  close(): void {
    for (const listener of [...this.listeners.values()]) listener.close();
    for (const [id, connection] of [...this.connections]) {
      this.tell(id);
      connection.over('the device was closed');
    }
    for (const pending of [...this.pending.values()]) pending.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
  }
}

function peerOf(end: End, qpNum: number, psn: number, mtu: number, service: number): QpAddress {
  const av = { gid: gidText(end.address), ...(end.port !== ROCE_PORT && { port: end.port }) };
  return { v: 1, provider: 'roce', av, qpNum, psn, mtu, type: service === 1 ? 'UC' : 'RC' };
}

/** A GUID from the last eight bytes of the GID. */
function guidOf(address: Uint8Array): bigint {
  return Buffer.from(gidOfAddress(address)).readBigUInt64BE(8);
}
