/**
 * Connections of a UCX device: REQ, REP or REJ, RTU and DREQ as messages of JSON. A name stands in a directory of this host with UCX's address of the device;
 * `listener.target` names a port where any host can ask for it.
 */

import {
  type Connection,
  type ConnectionRequest,
  type ConnectOptions,
  type Listener,
  MAX_PRIVATE_DATA,
} from '../../connection.js';
import { VerbsError } from '../../errors.js';
import type { QpAddress } from '../../queue-pair.js';
import { ipText } from '../roce/address.js';
import { Directory } from '../roce/directory.js';
import { checkName, parseTarget } from '../roce/service.js';
import { AddressServer, askAddress } from './address-server.js';
import type { UcxDevice, Waiter } from './device.js';
import type { UcxQueuePair } from './queue-pair.js';

const DEFAULT_TIMEOUT_MS = 5000;
const NOTHING = new Uint8Array(0);

interface Message {
  readonly kind: 'REQ' | 'REP' | 'REJ' | 'RTU' | 'DREQ';
  /** Number of the connection at the receiver; 0 in a REQ. */
  readonly to: number;
  /** Number of the connection at the sender. */
  readonly from: number;
  /** REQ: the sender's device, and whom it wants. */
  readonly device?: string;
  readonly service?: string;
  readonly qp?: QpAddress;
  readonly data?: string;
  /** REJ: nobody listens. */
  readonly isUnknown?: boolean;
}

function encoded(data: Uint8Array = NOTHING): string {
  if (data.length > MAX_PRIVATE_DATA) {
    throw new VerbsError('VERBS_INVALID', `${data.length} bytes of private data: at most ${MAX_PRIVATE_DATA} fit`);
  }
  return Buffer.from(data).toString('base64');
}

const decoded = (text = ''): Uint8Array => Uint8Array.from(Buffer.from(text, 'base64'));

class UcxConnection implements Connection {
  readonly qp: UcxQueuePair;
  readonly privateData: Uint8Array;
  readonly closed: Promise<string>;
  private readonly act: () => void;
  private end!: (reason: string) => void;

  constructor(qp: UcxQueuePair, privateData: Uint8Array, disconnect: () => void) {
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

class UcxRequest implements ConnectionRequest {
  readonly privateData: Uint8Array;
  readonly message: Message;
  readonly listener: UcxListener;
  private readonly manager: ConnectionManager;

  constructor(manager: ConnectionManager, listener: UcxListener, message: Message) {
    this.manager = manager;
    this.listener = listener;
    this.message = message;
    this.privateData = decoded(message.data);
  }

  accept(qp: UcxQueuePair, options: ConnectOptions = {}): Promise<Connection> {
    return this.manager.accept(this, qp, options);
  }

  reject(privateData?: Uint8Array): void {
    this.manager.reject(this, privateData);
  }
}

class UcxListener implements Listener {
  readonly name: string;
  readonly target: string;
  readonly waiting: UcxRequest[] = [];
  readonly open = new Set<UcxRequest>();
  private readonly acceptors = new Set<Waiter<ConnectionRequest>>();
  private readonly device: UcxDevice;
  private readonly manager: ConnectionManager;
  private isClosed = false;

  constructor(manager: ConnectionManager, device: UcxDevice, name: string, target: string) {
    this.manager = manager;
    this.device = device;
    this.name = name;
    this.target = target;
  }

  offer(request: UcxRequest): void {
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
    for (const request of [...this.open]) request.reject();
    this.manager.unlisten(this);
    for (const acceptor of [...this.acceptors]) {
      acceptor.reject(new VerbsError('VERBS_CLOSED', `the listener '${this.name}' was closed`));
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

interface Pending extends Waiter<Connection> {
  readonly qp: UcxQueuePair;
  readonly options: ConnectOptions;
  readonly name: string;
  readonly endpoint: number;
  /** Number at the peer; 0 until it has answered. */
  peer: number;
}

interface Standing {
  readonly connection: UcxConnection;
  readonly endpoint: number;
  readonly peer: number;
}

export class ConnectionManager {
  private readonly device: UcxDevice;
  private readonly directory: Directory;
  private readonly listeners = new Map<string, UcxListener>();
  private readonly requests = new Map<string, UcxRequest>();
  private readonly pending = new Map<number, Pending>();
  private readonly standing = new Map<number, Standing>();
  private server: Promise<AddressServer> | undefined;
  private lastId = 0;

  constructor(device: UcxDevice) {
    this.device = device;
    this.directory = new Directory('ucx');
  }

  async listen(name: string): Promise<UcxListener> {
    checkName(name);
    this.server ??= AddressServer.open(this.device.target, this.device.interfaces);
    const server = await this.server;
    this.device.assertOpen();
    this.directory.add(name, { gid: this.device.target });
    const listener = new UcxListener(this, this.device, name, server.targetOf(name));
    this.listeners.set(name, listener);
    return listener;
  }

  unlisten(listener: UcxListener): void {
    this.directory.remove(listener.name);
    this.listeners.delete(listener.name);
  }

  async connect(name: string, qp: UcxQueuePair, options: ConnectOptions): Promise<Connection> {
    const { device } = this;
    options.signal?.throwIfAborted();
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    const { target, service } = await this.find(name, timeoutMs);
    const data = encoded(options.privateData);
    return device.wait<Connection>({ timeoutMs, signal }, `'${service}' did not answer`, (waiter) => {
      const endpoint = device.endpointTo(target);
      const id = ++this.lastId;
      this.pending.set(id, { qp, options, name: service, endpoint, peer: 0, ...waiter });
      const message: Message = { kind: 'REQ', to: 0, from: id, device: device.target, service, qp: qp.address(), data };
      if (!device.tell(endpoint, message)) throw new VerbsError('VERBS_NO_DEVICE', `'${service}' cannot be reached`);
      return () => {
        device.leaveEndpoint(endpoint);
        const pending = this.pending.get(id);
        if (pending === undefined) return;
        this.pending.delete(id);
        // Gave up: the other side learns it.
        device.tell(endpoint, { kind: 'DREQ', to: pending.peer, from: id, device: device.target });
      };
    });
  }

  private async find(name: string, timeoutMs: number): Promise<{ target: string; service: string }> {
    checkName(name);
    const { end, service } = parseTarget(name);
    if (end !== undefined) return { target: await askAddress(ipText(end.address), end.port), service };
    return { target: (await this.directory.find(name, timeoutMs)).gid, service: name };
  }

  async accept(request: UcxRequest, qp: UcxQueuePair, options: ConnectOptions): Promise<Connection> {
    const { device } = this;
    const { message } = request;
    const data = encoded(options.privateData);
    device.progress();
    if (!this.requests.has(keyOf(message))) {
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up, or the request was answered already');
    }
    await qp.connect(message.qp as QpAddress, options.attributes);
    this.forget(request);
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
    return device.wait<Connection>({ timeoutMs, signal }, 'the initiator did not confirm', (waiter) => {
      const id = ++this.lastId;
      const { endpoint } = qp;
      this.pending.set(id, { qp, options, name: request.listener.name, endpoint, peer: message.from, ...waiter });
      device.tell(endpoint, { kind: 'REP', to: message.from, from: id, qp: qp.address(), data } satisfies Message);
      return () => {
        if (this.pending.delete(id)) device.tell(endpoint, { kind: 'DREQ', to: message.from, from: id });
      };
    });
  }

  reject(request: UcxRequest, privateData?: Uint8Array): void {
    const data = encoded(privateData);
    if (!this.requests.has(keyOf(request.message))) return;
    this.forget(request);
    this.refuse(request.message, { data });
  }

  private refuse(message: Message, more: Partial<Message>): void {
    const { device } = this;
    const endpoint = device.endpointTo(message.device as string);
    device.tell(endpoint, { kind: 'REJ', to: message.from, from: 0, ...more });
    device.leaveEndpoint(endpoint);
  }

  private forget(request: UcxRequest): void {
    this.requests.delete(keyOf(request.message));
    request.listener.open.delete(request);
    const at = request.listener.waiting.indexOf(request);
    if (at >= 0) request.listener.waiting.splice(at, 1);
  }

  /** A message of a peer. */
  heard(bytes: Uint8Array): void {
    const message = JSON.parse(Buffer.from(bytes).toString()) as Message;
    const pending = this.pending.get(message.to);
    switch (message.kind) {
      case 'REQ': {
        const listener = this.listeners.get(message.service as string);
        if (listener === undefined) {
          this.refuse(message, { isUnknown: true });
          return;
        }
        const request = new UcxRequest(this, listener, message);
        this.requests.set(keyOf(message), request);
        listener.offer(request);
        return;
      }
      case 'REP':
        if (pending === undefined) return;
        pending.qp.connect(message.qp as QpAddress, pending.options.attributes).then(
          () => {
            const { endpoint } = pending.qp;
            this.device.tell(endpoint, { kind: 'RTU', to: message.from, from: message.to });
            this.stands(message.to, pending, message.from, decoded(message.data));
          },
          (error: unknown) => {
            this.pending.delete(message.to);
            pending.reject(error);
          },
        );
        return;
      case 'RTU':
        if (pending) this.stands(message.to, pending, message.from, NOTHING);
        return;
      case 'REJ':
        if (pending === undefined) return;
        this.pending.delete(message.to);
        pending.reject(
          message.isUnknown
            ? new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${pending.name}' there`)
            : new VerbsError('VERBS_REFUSED', `'${pending.name}' refused the connection`, { privateData: decoded(message.data) }),
        );
        return;
      case 'DREQ': {
        const request = message.device === undefined ? undefined : this.requests.get(keyOf(message));
        if (request) this.forget(request);
        if (pending) {
          this.pending.delete(message.to);
          pending.reject(new VerbsError('VERBS_TIMEOUT', 'the other side has given up'));
        }
        const standing = this.standing.get(message.to);
        if (standing === undefined || standing.peer !== message.from) return;
        this.standing.delete(message.to);
        standing.connection.over('the peer disconnected');
      }
    }
  }

  private stands(id: number, pending: Pending, peer: number, data: Uint8Array): void {
    this.pending.delete(id);
    const { endpoint } = pending.qp;
    const connection = new UcxConnection(pending.qp, data, () => {
      if (this.standing.delete(id)) this.device.tell(endpoint, { kind: 'DREQ', to: peer, from: id });
    });
    this.standing.set(id, { connection, endpoint, peer });
    pending.resolve(connection);
  }

  /** The way to a peer broke. */
  endpointLost(endpoint: number): void {
    for (const [id, one] of [...this.standing]) {
      if (one.endpoint !== endpoint) continue;
      this.standing.delete(id);
      one.connection.over('the peer is gone');
    }
    for (const [id, one] of [...this.pending]) {
      if (one.endpoint !== endpoint) continue;
      this.pending.delete(id);
      one.reject(new VerbsError('VERBS_PEER_LOST', `'${one.name}' is gone`));
    }
  }

  queuePairClosed(qp: UcxQueuePair): void {
    for (const [id, { connection, endpoint, peer }] of [...this.standing]) {
      if (connection.qp !== qp) continue;
      this.standing.delete(id);
      this.device.tell(endpoint, { kind: 'DREQ', to: peer, from: id });
      connection.over('the queue pair was closed');
    }
  }

  /** The device is going: peers learn it, listeners are gone. */
  close(): void {
    for (const listener of [...this.listeners.values()]) listener.close();
    void this.server?.then((server) => server.close());
    for (const [id, { connection, endpoint, peer }] of [...this.standing]) {
      this.device.tell(endpoint, { kind: 'DREQ', to: peer, from: id });
      connection.over('the device was closed');
    }
    this.standing.clear();
    for (const pending of [...this.pending.values()]) pending.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
  }
}

/** A request is named by who sent it. */
function keyOf(message: Message): string {
  return `${message.device} ${message.from}`;
}
