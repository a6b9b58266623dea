/**
 * Connections by name on a simulated device: the names stand in a directory of the fabric, the handshake runs as CM messages on the wire.
 *
 *     connect(name) ── directory: device, service id ── REQ ──> listener ── accept ── REP ──> ... RTU
 *
 * Private data is preceded by its length, because the wire carries a fixed number of bytes.
 */

import { type Connection, type ConnectOptions, MAX_PRIVATE_DATA } from '../../connection.js';
import { VerbsError } from '../../errors.js';
import type { QpAddress } from '../../queue-pair.js';
import { type CmAcceptReply, CmAgent, type CmConnectRequest, type CmHost } from '../../transport/cm-agent.js';
import type { CmReq } from '../../transport/cm-messages.js';
import type { Packet } from '../../transport/packet.js';
import { type CmListener, CmManager } from '../cm-manager.js';
import type { SimDevice } from './device.js';
import type { Frame } from './frame.js';
import type { SimQueuePair } from './queue-pair.js';

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

export class ConnectionManager extends CmManager<SimDevice> implements CmHost {
  protected readonly guid: bigint;
  protected readonly gidBytes: Uint8Array;
  private readonly sim: SimDevice;
  private readonly agent: CmAgent;
  private timerAt = Number.POSITIVE_INFINITY;
  private readonly timer = { happen: (): void => this.timerFired() };

  constructor(device: SimDevice) {
    super(device, device.fabric.mtu);
    this.sim = device;
    this.guid = BigInt(device.index);
    this.gidBytes = device.gidBytes;
    this.agent = new CmAgent(this, device.fabric.random.u32());
  }

  listen(name: string): CmListener<SimDevice> {
    const { fabric } = this.sim;
    if (typeof name !== 'string' || name.length === 0 || name.length > MAX_NAME || name.includes('\0')) {
      throw new VerbsError('VERBS_INVALID', `a name has 1 to ${MAX_NAME} characters and no NUL`);
    }
    if (fabric.names.has(name)) throw new VerbsError('VERBS_BUSY', `somebody listens under '${name}' already`);
    const serviceId = fabric.newServiceId();
    fabric.names.set(name, { device: this.sim, serviceId });
    this.agent.listen(serviceId);
    return this.listenAs(name, name, serviceId, () => {
      fabric.names.delete(name);
      this.agent.unlisten(serviceId);
    });
  }

  async connect(name: string, qp: SimQueuePair, options: ConnectOptions): Promise<Connection> {
    const privateData = framed(options.privateData);
    const there = this.sim.fabric.names.get(name);
    if (there === undefined) {
      throw new VerbsError('VERBS_NO_DEVICE', `nobody listens under '${name}': start the listener first`);
    }
    return this.connectTo({ name, end: there.device, serviceId: there.serviceId, privateData }, qp, options);
  }

  connectRequest(id: number, request: CmReq, source: number): void {
    this.requested(id, request, this.sim.fabric.devices[source]);
  }

  protected request(end: SimDevice, request: CmConnectRequest): number {
    const id = this.agent.connect(end.index, request, this.sim.fabric.nowNs);
    this.kick();
    return id;
  }

  protected reply(id: number, reply: CmAcceptReply): void {
    this.agent.accept(id, reply, this.sim.fabric.nowNs);
    this.kick();
  }

  protected refuse(id: number, privateData: Uint8Array, reason: number): void {
    this.agent.reject(id, this.sim.fabric.nowNs, privateData, reason);
    this.kick();
  }

  protected disconnect(id: number): void {
    this.agent.disconnect(id, this.sim.fabric.nowNs);
    this.kick();
  }

  protected gidBytesOf(end: SimDevice): Uint8Array {
    return end.gidBytes;
  }

  protected avOf(end: SimDevice): Pick<QpAddress, 'provider' | 'av'> {
    return { provider: 'sim', av: { gid: end.gid } };
  }

  protected requestDataOf(request: CmReq): Uint8Array {
    return unframed(request.privateData);
  }

  protected answerData(_serviceId: bigint, data?: Uint8Array): Uint8Array {
    return framed(data);
  }

  protected answerDataOf(_serviceId: bigint, data: Uint8Array): Uint8Array {
    return unframed(data);
  }

  receive(p: Packet, frame: Frame): void {
    this.agent.receive(p, frame.bytes, this.sim.fabric.nowNs, frame.from);
    this.kick();
  }

  private kick(): void {
    const { fabric } = this.sim;
    for (;;) {
      const frame = fabric.spare;
      frame.length = this.agent.next(frame.bytes, frame.at);
      if (frame.length === 0) break;
      fabric.send(this.sim, this.agent.destination);
    }
    const { deadline } = this.agent;
    if (deadline >= this.timerAt) return;
    this.timerAt = deadline;
    fabric.schedule(deadline, this.timer);
  }

  private timerFired(): void {
    const { fabric, isClosed } = this.sim;
    if (fabric.nowNs < this.timerAt || isClosed) return;
    this.timerAt = Number.POSITIVE_INFINITY;
    this.agent.tick(fabric.nowNs);
    this.kick();
  }
}
