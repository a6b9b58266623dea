/**
 * Connections by name on a RoCE device. The handshake runs as CM messages in the engine (so that repetitions are answered while this
 * thread is busy).
 */

import type { Connection, ConnectOptions } from '../../connection.js';
import { gidOfAddress, gidText } from '../../ip-address.js';
import type { QpAddress } from '../../queue-pair.js';
import type { CmAcceptReply, CmConnectRequest } from '../../transport/cm-agent.js';
import type { CmReq } from '../../transport/cm-messages.js';
import { type CmListener, CmManager } from '../cm-manager.js';
import { CONNECT_TIMEOUT_MS } from '../managed-connection.js';
import { endOf, ROCE_PORT } from './address.js';
import type { RoceDevice } from './device.js';
import { Directory } from './directory.js';
import type { End, Notice } from './messages.js';
import type { RoceQueuePair } from './queue-pair.js';
import { answerData, answerDataOf, checkName, parseTarget, requestData, requestDataOf, serviceOf, targetOf } from './service.js';

type CmNotice = Extract<Notice, { kind: 'connectRequest' | 'established' | 'rejected' | 'disconnected' }>;

export class ConnectionManager extends CmManager<End> {
  protected readonly guid: bigint;
  protected readonly gidBytes: Uint8Array;
  private readonly roce: RoceDevice;
  private readonly directory = new Directory('roce');

  constructor(device: RoceDevice) {
    super(device, device.capabilities.mtu);
    this.roce = device;
    this.gidBytes = gidOfAddress(device.address);
    this.guid = Buffer.from(this.gidBytes).readBigUInt64BE(8);
  }

  listen(name: string): CmListener<End> {
    checkName(name);
    const { roce, self } = this;
    const serviceId = serviceOf(name);
    this.directory.add(name, { gid: roce.gid, port: roce.port });
    const listener = this.listenAs(name, targetOf(self, name), serviceId, () => {
      this.directory.remove(name);
      roce.call({ kind: 'unlisten', serviceId });
    });
    roce.call({ kind: 'listen', serviceId });
    return listener;
  }

  async connect(name: string, qp: RoceQueuePair, options: ConnectOptions): Promise<Connection> {
    checkName(name);
    const target = parseTarget(name);
    const end = target.end ?? endOf(await this.directory.find(name, options.timeoutMs ?? CONNECT_TIMEOUT_MS));
    const serviceId = serviceOf(target.service);
    const privateData = requestData(serviceId, options.privateData ?? new Uint8Array(0), this.self, end);
    return this.connectTo({ name, end, serviceId, privateData }, qp, options);
  }

  private get self(): End {
    return { address: this.roce.address, port: this.roce.port };
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
        this.disconnected(notice.id);
    }
  }

  protected request(end: End, request: CmConnectRequest): number {
    return this.roce.call({ kind: 'connect', end, request }) as number;
  }

  protected reply(id: number, reply: CmAcceptReply): void {
    this.roce.call({ kind: 'accept', id, reply });
  }

  protected refuse(id: number, privateData: Uint8Array, reason: number): void {
    this.roce.call({ kind: 'reject', id, privateData, reason });
  }

  protected disconnect(id: number): void {
    if (!this.roce.isClosed) this.roce.call({ kind: 'disconnect', id });
  }

  protected gidBytesOf(end: End): Uint8Array {
    return gidOfAddress(end.address);
  }

  protected avOf(end: End): Pick<QpAddress, 'provider' | 'av'> {
    return { provider: 'roce', av: { gid: gidText(end.address), ...(end.port !== ROCE_PORT && { port: end.port }) } };
  }

  protected requestDataOf(request: CmReq): Uint8Array {
    return requestDataOf(request.serviceId, request.privateData);
  }

  protected answerData(serviceId: bigint, data?: Uint8Array): Uint8Array {
    return answerData(serviceId, data);
  }

  protected answerDataOf(serviceId: bigint, data: Uint8Array): Uint8Array {
    return answerDataOf(serviceId, data);
  }
}
