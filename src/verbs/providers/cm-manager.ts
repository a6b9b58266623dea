/**
 * Connections by name whose handshake runs as CM messages of the transport (transport/cm-agent.ts), for every provider that sends packets: promises,
 * and queue pairs that move along. `E` is the provider's word for the other end; how the agent is reached and how private data is framed are its own.
 *
 *     connect ──REQ──> connectRequest ── listener ── accept ──REP──> established ──RTU──> established
 */

import type { Connection, ConnectOptions } from '../connection.js';
import { VerbsError } from '../errors.js';
import { PATH_MTUS } from '../qp-state.js';
import type { ConnectAttributes, QpAddress, QueuePair } from '../queue-pair.js';
import type { CmAcceptReply, CmConnectRequest } from '../transport/cm-agent.js';
import { type CmRep, type CmReq, RejectReason } from '../transport/cm-messages.js';
import { mtuCode } from '../transport/segmentation.js';
import {
  CONNECT_TIMEOUT_MS,
  ManagedConnection,
  ManagedListener,
  type ManagedQueuePair,
  ManagedRequest,
} from './managed-connection.js';
import { type Waiter, type WaitHost, waitOn } from './waiting.js';

/** 4.096 us x 2^16, about 0.27 s, between repetitions. */
const RESPONSE_CODE = 16;
const NOTHING: Uint8Array = new Uint8Array(0);

/** A queue pair that connects as connection management means it. */
export interface CmQueuePair extends ManagedQueuePair {
  connectManaged(peer: QpAddress, options?: ConnectAttributes): Promise<void>;
}

/** What is kept of a request. */
interface Asked<E> {
  readonly request: CmReq;
  readonly end: E;
}

export type CmListener<E> = ManagedListener<Asked<E>>;
type CmRequest<E> = ManagedRequest<Asked<E>>;

interface Pending<E> extends Waiter<Connection> {
  readonly qp: CmQueuePair;
  readonly options: ConnectOptions;
  readonly end: E;
  readonly serviceId: bigint;
  readonly name: string;
}

/** Where a connection goes and what it says. */
interface Target<E> {
  readonly name: string;
  readonly end: E;
  readonly serviceId: bigint;
  readonly privateData: Uint8Array;
}

export abstract class CmManager<E> {
  private readonly device: WaitHost & { progress(): void };
  private readonly mtu: number;
  private readonly listeners = new Map<bigint, CmListener<E>>();
  private readonly requests = new Map<number, CmRequest<E>>();
  /** Active side: connects that wait for an answer. Passive side: accepts that wait for the RTU. */
  private readonly pending = new Map<number, Pending<E>>();
  private readonly connections = new Map<number, ManagedConnection>();

  constructor(device: WaitHost & { progress(): void }, mtu: number) {
    this.device = device;
    this.mtu = mtu;
  }

  // ---- the agent ----

  /** Sends a REQ and returns the agent's number of the connection. */
  protected abstract request(end: E, request: CmConnectRequest): number;
  protected abstract reply(id: number, reply: CmAcceptReply): void;
  protected abstract refuse(id: number, privateData: Uint8Array, reason: number): void;
  /** Ends a connection, or gives one up. */
  protected abstract disconnect(id: number): void;

  // ---- names of the provider ----

  protected abstract readonly guid: bigint;
  protected abstract readonly gidBytes: Uint8Array;
  protected abstract gidBytesOf(end: E): Uint8Array;
  protected abstract avOf(end: E): Pick<QpAddress, 'provider' | 'av'>;

  // ---- private data on the wire ----

  protected abstract requestDataOf(request: CmReq): Uint8Array;
  protected abstract answerData(serviceId: bigint, data?: Uint8Array): Uint8Array;
  protected abstract answerDataOf(serviceId: bigint, data: Uint8Array): Uint8Array;

  protected listenAs(name: string, target: string, serviceId: bigint, unlisten: () => void): CmListener<E> {
    const listener: CmListener<E> = new ManagedListener(this.device, name, target, () => {
      this.listeners.delete(serviceId);
      unlisten();
    });
    this.listeners.set(serviceId, listener);
    return listener;
  }

  protected connectTo(target: Target<E>, qp: CmQueuePair, options: ConnectOptions): Promise<Connection> {
    const { name, end, serviceId, privateData } = target;
    return this.wait(options, `'${name}' did not answer`, (waiter) => {
      const own = qp.address();
      const id = this.request(end, {
        serviceId,
        localGuid: this.guid,
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
        localGid: this.gidBytes,
        remoteGid: this.gidBytesOf(end),
        flowLabel: 0,
        packetRate: 3,
        trafficClass: 0,
        hopLimit: 64,
        serviceLevel: 0,
        isSubnetLocal: 0,
        ackTimeout: options.attributes?.timeout ?? 14,
        privateData,
      });
      this.pending.set(id, { qp, options, end, serviceId, name, ...waiter });
      return id;
    });
  }

  async accept(request: CmRequest<E>, queuePair: QueuePair, options: ConnectOptions): Promise<Connection> {
    const qp = queuePair as CmQueuePair;
    const { id } = request;
    const { request: req, end } = request.detail;
    const privateData = this.answerData(req.serviceId, options.privateData);
    this.device.progress();
    if (!this.requests.has(id)) {
      throw new VerbsError('VERBS_TIMEOUT', 'the initiator has given up, or the request was answered already');
    }
    const theirs = PATH_MTUS[req.mtuCode - 1] ?? 0;
    if (theirs > this.mtu) {
      this.reject(request, undefined, RejectReason.invalidMtu);
      throw new VerbsError(
        'VERBS_INVALID',
        `the initiator wants a path MTU of ${theirs} bytes, and this device's interface carries ${this.mtu}`,
      );
    }
    await qp.connectManaged(this.addressOf(end, req, theirs, req.service), options.attributes);
    const own = qp.address();
    this.forget(request);
    return this.wait(options, 'the initiator did not confirm', (waiter) => {
      this.pending.set(id, { qp, options, end, serviceId: req.serviceId, name: '', ...waiter });
      this.reply(id, {
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
        localGuid: this.guid,
        privateData,
      });
      return id;
    });
  }

  /** `start` registers the wait and returns its number; who gives up tells the other side. */
  private wait(options: ConnectOptions, what: string, start: (waiter: Waiter<Connection>) => number): Promise<Connection> {
    const { timeoutMs = CONNECT_TIMEOUT_MS, signal } = options;
    return waitOn<Connection>(this.device, { timeoutMs, signal }, what, (waiter) => {
      const id = start(waiter);
      return () => {
        if (this.pending.delete(id)) this.disconnect(id);
      };
    });
  }

  reject(request: CmRequest<E>, data?: Uint8Array, reason: number = RejectReason.consumer): void {
    const privateData = this.answerData(request.detail.request.serviceId, data);
    if (!this.requests.has(request.id)) return;
    this.forget(request);
    this.refuse(request.id, privateData, reason);
  }

  private forget(request: CmRequest<E>): void {
    this.requests.delete(request.id);
    request.listener.forget(request);
  }

  private addressOf(end: E, side: { qpNum: number; startingPsn: number }, mtu: number, service: number): QpAddress {
    return { v: 1, ...this.avOf(end), qpNum: side.qpNum, psn: side.startingPsn, mtu, type: service === 1 ? 'UC' : 'RC' };
  }

  // ---- what the agent tells ----

  requested(id: number, request: CmReq, end: E): void {
    const listener = this.listeners.get(request.serviceId);
    if (listener === undefined) {
      this.refuse(id, this.answerData(request.serviceId), RejectReason.invalidServiceId); // came while the listener was closing
      return;
    }
    const asked = new ManagedRequest(this, listener, id, this.requestDataOf(request), { request, end });
    this.requests.set(id, asked);
    listener.offer(asked);
  }

  established(id: number, reply: CmRep | undefined): void {
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    const { qp, options, end, serviceId } = pending;
    const data = reply ? this.answerDataOf(serviceId, reply.privateData) : NOTHING;
    const connection = new ManagedConnection(qp, data, () => this.disconnect(id));
    this.connections.set(id, connection);
    if (reply === undefined) {
      pending.resolve(connection);
      return;
    }
    const peer = this.addressOf(end, reply, this.mtu, qp.type === 'UC' ? 1 : 0);
    qp.connectManaged(peer, options.attributes).then(() => pending.resolve(connection), pending.reject);
  }

  rejected(id: number, reason: number, privateData: Uint8Array): void {
    const request = this.requests.get(id);
    if (request) this.forget(request);
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    const { name, serviceId } = pending;
    if (reason === RejectReason.timeout) {
      pending.reject(new VerbsError('VERBS_TIMEOUT', 'the other side did not answer, or has given up'));
    } else if (reason === RejectReason.invalidServiceId) {
      pending.reject(new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${name}' there`));
    } else if (reason === RejectReason.invalidMtu) {
      const words = `'${name}' cannot take packets of this device's path MTU, ${this.mtu} bytes: open both on interfaces of equal MTU`;
      pending.reject(new VerbsError('VERBS_REFUSED', words));
    } else {
      const data = this.answerDataOf(serviceId, privateData);
      pending.reject(new VerbsError('VERBS_REFUSED', `'${name}' refused the connection`, { privateData: data }));
    }
  }

  disconnected(id: number): void {
    this.connections.get(id)?.over('the peer disconnected');
    this.connections.delete(id);
  }

  /** The device is going: peers learn it, listeners are gone. */
  close(): void {
    for (const listener of [...this.listeners.values()]) listener.close();
    for (const [id, connection] of [...this.connections]) {
      this.disconnect(id);
      connection.over('the device was closed');
    }
    for (const pending of [...this.pending.values()]) pending.reject(new VerbsError('VERBS_CLOSED', 'the device is closed'));
  }
}
