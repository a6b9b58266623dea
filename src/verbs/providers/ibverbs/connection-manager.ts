/**
 * Connections through librdmacm. The queue pairs are made before and without it, so their states are walked here with what the
 * connection's id knows:
 *
 *     connect:  resolve address ── resolve route ── INIT, REQ ── (REP) RTR, RTS, RTU             iWARP: the kernel does the last step
 *     accept:   (REQ) INIT, RTR, RTS, REP ── (RTU)
 *
 * A number is a port of librdmacm's TCP port space, as other programs use it. Any other name gets a free port, which a directory on this host
 * knows; from another host `listener.target` tells address and port.
 *
 * librdmacm carries 56 bytes of private data in a request. For names, longer data goes ahead in requests of its own, which the listener notes and
 * refuses; the last one is the request that counts (private-data.ts).
 */

import { constants } from 'node:os';
import type { Connection, ConnectOptions } from '../../connection.js';
import { VerbsError } from '../../errors.js';
import { gidText, ipText, parseIp } from '../../ip-address.js';
import type { QueuePair } from '../../queue-pair.js';
import { systemError } from '../../system-error.js';
import { CONNECT_TIMEOUT_MS, ManagedConnection, ManagedListener, ManagedRequest } from '../managed-connection.js';
import { endOf } from '../roce/address.js';
import { Directory } from '../roce/directory.js';
import { checkName, parseTarget, targetOf } from '../roce/service.js';
import { type Waiter, waitOn } from '../waiting.js';
import type { IbverbsDevice } from './device.js';
import { isIwarp } from './discovery.js';
import {
  answerFrame,
  isPartTaken,
  PART_TAKEN,
  REJECT_BYTES,
  REPLY_BYTES,
  readAnswer,
  readPart,
  requestFrames,
} from './private-data.js';
import type { IbverbsQueuePair } from './queue-pair.js';

const RESOLVE_MS = 2000;

// Numbers of enum rdma_cm_event_type.
const ADDR_RESOLVED = 0;
const ADDR_ERROR = 1;
const ROUTE_RESOLVED = 2;
const ROUTE_ERROR = 3;
const CONNECT_REQUEST = 4;
const CONNECT_RESPONSE = 5;
const CONNECT_ERROR = 6;
const UNREACHABLE = 7;
const REJECTED = 8;
const ESTABLISHED = 9;
const DISCONNECTED = 10;
const DEVICE_REMOVAL = 11;

/** Reasons of InfiniBand's REJ message. */
const REASON_TIMEOUT = 4;
const REASON_NO_SERVICE = 8;

const { ECONNREFUSED, EADDRINUSE, EADDRNOTAVAIL, EXDEV } = constants.errno;
const REMOVED = 'the RDMA device was removed';
const NOTHING: Uint8Array = new Uint8Array(0);
/** Messages that are put together at a time; more come only from somebody who does not finish. */
const MOST_PARTS = 1024;

const isPort = (service: string): boolean => /^\d{1,5}$/.test(service) && Number(service) < 65536;

/** `isRaw`: asked for by port, so that its private data is as it came. */
type Request = ManagedRequest<{ readonly isRaw: boolean }>;
type PortListener = ManagedListener<{ readonly isRaw: boolean }>;

interface Pending extends Waiter<Connection> {
  readonly qp: IbverbsQueuePair;
  readonly options: ConnectOptions;
  readonly name: string;
  readonly isRaw: boolean;
  readonly isPassive: boolean;
  /** Private data still to be sent; the last frame goes with the request that counts. */
  readonly frames: Uint8Array[];
  /** librdmacm's id of the request under way. */
  id: number;
  /** Begins the next request. */
  readonly begin: () => number;
}

export class ConnectionManager {
  private readonly device: IbverbsDevice;
  private readonly directory: Directory;
  /** The address of the port's interface, which may change. */
  private readonly findIp: () => string | undefined;
  private readonly listeners = new Map<number, PortListener>();
  private readonly requests = new Map<number, Request>();
  private readonly pending = new Map<number, Pending>();
  private readonly connections = new Map<number, ManagedConnection>();
  /** Private data that came ahead of its request, by sender's number. */
  private readonly parts = new Map<number, Uint8Array>();

  constructor(device: IbverbsDevice, findIp: () => string | undefined) {
    this.device = device;
    this.findIp = findIp;
    this.directory = new Directory('ibverbs');
  }

  private get ownIp(): string {
    const ip = this.findIp();
    if (ip !== undefined) return ip;
    const { device, port } = this.device.choice;
    throw new VerbsError(
      'VERBS_NO_DEVICE',
      `rdma-cm addresses peers by IP, and port ${port.number} of ${device.name} has no IP address: give its interface one (IPoIB on InfiniBand)`,
    );
  }

  listen(name: string): PortListener {
    checkName(name);
    const { device, ownIp } = this;
    const port = isPort(name) ? Number(name) : 0;
    const made = device.addon.cmListen(device.handle, ownIp, port);
    if (typeof made === 'number') {
      if (made === -EADDRINUSE) throw new VerbsError('VERBS_BUSY', `port ${port} of ${ownIp} is taken: listen at another`);
      throw systemError(made, `cannot listen at ${ownIp}`);
    }
    const [id, bound] = made;
    const address = parseIp(ownIp) as Uint8Array;
    try {
      this.directory.add(name, { gid: gidText(address), port: bound });
    } catch (error) {
      device.addon.destroy(device.handle, id);
      throw error;
    }
    const listener: PortListener = new ManagedListener(device, name, targetOf({ address, port: bound }, name), () =>
      this.unlisten(name, id),
    );
    this.listeners.set(id, listener);
    return listener;
  }

  private unlisten(name: string, id: number): void {
    this.directory.remove(name);
    this.listeners.delete(id);
    this.destroy(id);
  }

  async connect(name: string, qp: IbverbsQueuePair, options: ConnectOptions): Promise<Connection> {
    checkName(name);
    const { device, ownIp } = this;
    const { end, service } = parseTarget(name);
    const isRaw = isPort(service);
    const frames = requestFrames(options.privateData ?? NOTHING, isRaw);
    const { timeoutMs = CONNECT_TIMEOUT_MS, signal } = options;
    const there = end ?? endOf(await this.directory.find(name, timeoutMs));
    const port = isRaw ? Number(service) : there.port;
    if (qp.type !== 'RC') {
      throw new VerbsError('VERBS_UNSUPPORTED', `rdma-cm connects RC queue pairs: exchange address() for ${qp.type}`);
    }
    return waitOn<Connection>(device, { timeoutMs, signal }, `'${name}' did not answer`, (waiter) => {
      const begin = (): number => {
        const id = device.addon.cmResolve(device.handle, ownIp, ipText(there.address), port, RESOLVE_MS);
        if (id >= 0) return id;
        const code = id === -EADDRNOTAVAIL ? 'VERBS_NO_DEVICE' : 'VERBS_SYSTEM';
        throw systemError(id, `no way to ${ipText(there.address)}`, code);
      };
      const pending: Pending = { qp, options, name, isRaw, isPassive: false, frames, id: begin(), begin, ...waiter };
      this.pending.set(pending.id, pending);
      return () => {
        // Gave up: destroying the id tells the other side.
        if (this.pending.delete(pending.id)) this.destroy(pending.id);
      };
    });
  }

  /** What both sides tell about their queue pair. */
  private writeParameters({ qp, options }: { qp: IbverbsQueuePair; options: ConnectOptions }): void {
    const { attributes = {} } = options;
    const { device } = this;
    device.block.arguments.set([
      qp.qpNum,
      Math.min(attributes.maxDestRdAtomic ?? 16, device.maxTargetReads, 255),
      Math.min(attributes.maxRdAtomic ?? 16, device.maxReads, 255),
      attributes.retryCnt ?? 7,
      attributes.rnrRetry ?? 7,
      qp.srq ? 1 : 0,
    ]);
  }

  async accept(request: Request, queuePair: QueuePair, options: ConnectOptions): Promise<Connection> {
    const { device } = this;
    const qp = queuePair as IbverbsQueuePair;
    const { id } = request;
    const { isRaw } = request.detail;
    const data = answerFrame(options.privateData ?? NOTHING, REPLY_BYTES, isRaw);
    device.progress();
    if (!this.requests.has(id)) {
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up, or the request was answered already');
    }
    if (qp.state !== 'RESET') qp.modify('RESET');
    try {
      // On iWARP the kernel moves the queue pair on, when the connection stands.
      const states = isIwarp(device.choice.device) ? (['INIT'] as const) : (['INIT', 'RTR', 'RTS'] as const);
      for (const state of states) qp.moveManaged(id, state, options.attributes ?? {});
    } catch (cause) {
      this.dropped(request);
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up', { cause });
    }
    const { timeoutMs = CONNECT_TIMEOUT_MS, signal } = options;
    this.forget(request);
    return waitOn<Connection>(device, { timeoutMs, signal }, 'the initiator did not confirm', (waiter) => {
      const { name } = request.listener;
      this.pending.set(id, { qp, options, name, isRaw, isPassive: true, frames: [], id, begin: () => -1, ...waiter });
      this.writeParameters({ qp, options });
      const errno = device.addon.cmAccept(device.handle, id, data);
      if (errno !== 0) {
        this.pending.delete(id);
        this.destroy(id);
        throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up');
      }
      return () => {
        if (this.pending.delete(id)) this.destroy(id);
      };
    });
  }

  reject(request: Request, data?: Uint8Array): void {
    const privateData = answerFrame(data ?? NOTHING, REJECT_BYTES, request.detail.isRaw);
    if (!this.requests.has(request.id)) return;
    this.forget(request);
    this.device.addon.cmReject(this.device.handle, request.id, privateData);
    this.destroy(request.id);
  }

  private forget(request: Request): void {
    this.requests.delete(request.id);
    request.listener.forget(request);
  }

  private destroy(id: number): void {
    if (!this.device.isClosed) this.device.addon.destroy(this.device.handle, id);
  }

  /** An event of librdmacm. */
  happened(id: number, type: number, status: number, privateData: Uint8Array, listenerId: number): void {
    const request = this.requests.get(id);
    const pending = this.pending.get(id);
    switch (type) {
      case CONNECT_REQUEST: {
        const listener = this.listeners.get(listenerId);
        if (listener === undefined) {
          this.destroy(id);
          return;
        }
        this.requested(listener, id, privateData);
        return;
      }
      case ADDR_RESOLVED:
        if (pending) this.step(id, pending, () => this.check(this.device.addon.cmRoute(this.device.handle, id, RESOLVE_MS)));
        return;
      case ROUTE_RESOLVED:
        if (pending) this.step(id, pending, () => this.ask(id, pending));
        return;
      case CONNECT_RESPONSE:
        if (pending) this.step(id, pending, () => this.answered(id, pending, privateData));
        return;
      case ESTABLISHED:
        if (pending) this.step(id, pending, () => this.established(id, pending, privateData));
        return;
      case DISCONNECTED:
        this.ended(id, 'the peer disconnected');
        pending?.reject(new VerbsError('VERBS_TIMEOUT', 'the peer has given up'));
        return;
      case DEVICE_REMOVAL:
        this.ended(id, REMOVED);
        pending?.reject(new VerbsError('VERBS_NO_DEVICE', REMOVED));
        if (request) this.dropped(request);
        this.listeners.get(id)?.close();
        return;
      case ADDR_ERROR:
      case ROUTE_ERROR:
      case CONNECT_ERROR:
      case UNREACHABLE:
      case REJECTED:
        if (request) this.dropped(request);
        if (pending) this.refused(id, pending, type, status, privateData);
    }
  }

  /** A connection ended from outside. */
  private ended(id: number, reason: string): void {
    const connection = this.connections.get(id);
    if (connection === undefined) return;
    this.connections.delete(id);
    this.device.addon.cmDisconnect(this.device.handle, id); // answers the peer
    this.destroy(id);
    connection.over(reason);
  }

  /** A request ended before it was answered. */
  private dropped(request: Request): void {
    this.forget(request);
    this.destroy(request.id);
  }

  private requested(listener: PortListener, id: number, data: Uint8Array): void {
    const isRaw = isPort(listener.name);
    let whole = data;
    if (!isRaw) {
      const part = readPart(data);
      const before = this.parts.get(part.sender) ?? NOTHING;
      whole = Uint8Array.of(...before, ...part.bytes);
      this.parts.delete(part.sender);
      if (!part.isLast) {
        if (this.parts.size >= MOST_PARTS) this.parts.delete([...this.parts.keys()][0]);
        this.parts.set(part.sender, whole);
        this.device.addon.cmReject(this.device.handle, id, PART_TAKEN);
        this.destroy(id);
        return;
      }
    }
    const request = new ManagedRequest(this, listener, id, whole, { isRaw });
    this.requests.set(id, request);
    listener.offer(request);
  }

  private check(errno: number): void {
    if (errno === -EXDEV) {
      const { name } = this.device.choice.device;
      throw new VerbsError(
        'VERBS_NO_DEVICE',
        `rdma-cm reaches that address by another RDMA device than ${name}: open that one, or give each an interface of its own`,
      );
    }
    if (errno !== 0) throw systemError(errno, 'the connection failed');
  }

  /** A step of a connection: what it throws ends the connection. */
  private step(id: number, pending: Pending, act: () => void): void {
    try {
      act();
    } catch (error) {
      this.pending.delete(id);
      this.destroy(id);
      pending.reject(error);
    }
  }

  private ask(id: number, pending: Pending): void {
    const { qp, options, frames } = pending;
    const data = frames.shift() ?? NOTHING;
    if (frames.length === 0) {
      if (qp.state !== 'RESET') qp.modify('RESET');
      qp.moveManaged(id, 'INIT', options.attributes ?? {});
    }
    this.writeParameters(pending);
    this.check(this.device.addon.cmConnect(this.device.handle, id, data));
  }

  private answered(id: number, pending: Pending, privateData: Uint8Array): void {
    const { qp, options } = pending;
    qp.moveManaged(id, 'RTR', options.attributes ?? {});
    qp.moveManaged(id, 'RTS', options.attributes ?? {});
    this.check(this.device.addon.cmEstablish(this.device.handle, id));
    this.stands(id, pending, privateData);
  }

  /** The confirmation on the accepting side; on iWARP also the answer to who connects, whose queue pair the kernel has moved. */
  private established(id: number, pending: Pending, privateData: Uint8Array): void {
    if (isIwarp(this.device.choice.device)) pending.qp.becomeReady();
    void pending.qp.state;
    this.stands(id, pending, pending.isPassive ? NOTHING : privateData);
  }

  private stands(id: number, pending: Pending, privateData: Uint8Array): void {
    this.pending.delete(id);
    const data = pending.isPassive ? NOTHING : readAnswer(privateData, pending.isRaw);
    const connection = new ManagedConnection(pending.qp, data, () => {
      if (this.connections.has(id)) this.device.addon.cmDisconnect(this.device.handle, id);
    });
    this.connections.set(id, connection);
    pending.resolve(connection);
  }

  private refused(id: number, pending: Pending, type: number, status: number, privateData: Uint8Array): void {
    const { name, isRaw } = pending;
    this.pending.delete(id);
    this.destroy(id);
    if (type === REJECTED && pending.frames.length > 0 && isPartTaken(privateData)) {
      try {
        pending.id = pending.begin();
        this.pending.set(pending.id, pending);
      } catch (error) {
        pending.reject(error);
      }
      return;
    }
    if (type === UNREACHABLE || (type === REJECTED && status === REASON_TIMEOUT)) {
      pending.reject(new VerbsError('VERBS_TIMEOUT', `'${name}' did not answer, or has given up`));
    } else if (type === REJECTED && (status === REASON_NO_SERVICE || status === -ECONNREFUSED)) {
      pending.reject(new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${name}' there`));
    } else if (type === REJECTED) {
      pending.reject(
        new VerbsError('VERBS_REFUSED', `'${name}' refused the connection`, { privateData: readAnswer(privateData, isRaw) }),
      );
    } else {
      pending.reject(systemError(status, `no way to '${name}': check the IP address and the route`, 'VERBS_NO_DEVICE'));
    }
  }

  /** A queue pair is going: so is its connection, or the attempt to make one. */
  queuePairClosed(qp: IbverbsQueuePair): void {
    for (const pending of [...this.pending.values()]) {
      if (pending.qp === qp) pending.reject(new VerbsError('VERBS_CLOSED', 'the queue pair was closed'));
    }
    for (const [id, connection] of this.connections) {
      if (connection.qp !== qp) continue;
      this.connections.delete(id);
      this.device.addon.cmDisconnect(this.device.handle, id);
      this.destroy(id);
      connection.over('the queue pair was closed');
    }
  }

  /** The device is going: peers learn it, listeners are gone. */
  close(): void {
    for (const listener of [...this.listeners.values()]) listener.close();
    for (const [id, connection] of [...this.connections]) {
      this.device.addon.cmDisconnect(this.device.handle, id);
      connection.over('the device was closed');
    }
    this.connections.clear();
    for (const pending of [...this.pending.values()]) pending.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
  }
}
