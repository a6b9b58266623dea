/**
 * A simulated device: numbers, keys and addresses of its own, and the place where frames of the fabric find their queue pair.
 */

import type { CompletionChannel, CompletionThread, CqInit } from '../../completion-queue.js';
import type { Capabilities, Counters } from '../../device.js';
import { VerbsError } from '../../errors.js';
import type { RemoteRegion } from '../../memory-region.js';
import type { QpAddress } from '../../queue-pair.js';
import { CM_QP } from '../../transport/cm-messages.js';
import { DecodeError, decodePacket, Packet } from '../../transport/packet.js';
import { RegionTable } from '../../transport/region-table.js';
import { writeRouteHeader } from '../../transport/route-header.js';
import { MAX_MESSAGE_BYTES } from '../../transport/segmentation.js';
import { MULTICAST_QP } from '../../transport/ud-endpoint.js';
import { ProvidedDevice } from '../provided-device.js';
import type { TableRegion } from '../table-region.js';
import { SimCompletionChannel } from './completion-channel.js';
import { SimCompletionQueue } from './completion-queue.js';
import { ConnectionManager } from './connection-manager.js';
import type { SimFabric } from './fabric.js';
import type { Frame } from './frame.js';
import { gidBytesOf, gidOf } from './gid.js';
import { SimMemory } from './memory.js';
import { SimProtectionDomain } from './protection-domain.js';
import type { SimQueuePair } from './queue-pair.js';

/** Arenas of devices lie this far apart, so that addresses of two devices differ. */
const DEVICE_SPACE = 2 ** 40;
/** Queue pair numbers below are for management. */
const FIRST_NUMBER = 16;
const UDP = 17;

export class SimDevice extends ProvidedDevice {
  readonly provider = 'sim';
  readonly name: string;
  readonly gid: string;
  readonly gidBytes: Uint8Array;
  readonly index: number;
  readonly fabric: SimFabric;
  readonly capabilities: Capabilities;
  readonly regions: RegionTable;
  readonly memory: SimMemory;
  /** Died by the fault plan: silent, but its objects still answer. */
  isDead = false;
  operations = 0;
  bytes = 0;
  errors = 0;
  sentPackets = 0;
  sentBytes = 0;
  private readonly queuePairs = new Map<number, SimQueuePair>();
  private readonly pds: SimProtectionDomain[] = [];
  private readonly cqs = new Set<SimCompletionQueue>();
  private readonly groupMembers = new Map<number, SimQueuePair[]>();
  private readonly registered = new Map<number, TableRegion>();
  private readonly packet = new Packet();
  private manager: ConnectionManager | undefined;
  private nextNumber = FIRST_NUMBER;
  private tokens = 0;

  constructor(fabric: SimFabric, index: number, name = `sim${index}`) {
    super();
    this.fabric = fabric;
    this.index = index;
    this.name = name;
    this.gid = gidOf(index);
    this.gidBytes = gidBytesOf(index);
    this.regions = new RegionTable((index + 1) * DEVICE_SPACE);
    this.memory = new SimMemory(this.regions, () => this.registered.values());
    this.capabilities = {
      qpTypes: ['RC', 'UC', 'UD', 'DCI', 'DCT'],
      maxInline: 4096,
      maxSge: 64,
      maxMessage: MAX_MESSAGE_BYTES,
      maxQpWr: 65536,
      mtu: fabric.mtu,
      atomics: 'hca',
      srq: true,
      multicast: true,
      dc: true,
      onDemand: true,
      umr: true,
      memoryWindows: false,
      privateMemory: true,
      mappedFiles: false,
      directAccess: true,
      peerDeath: false,
      virtualTime: fabric.isVirtual,
    };
  }

  allocPd(): SimProtectionDomain {
    this.assertOpen();
    const pd = new SimProtectionDomain(this, this.pds.length + 1);
    this.pds.push(pd);
    return pd;
  }

  createCq(init: CqInit = {}): SimCompletionQueue {
    this.assertOpen();
    const cq = new SimCompletionQueue(this, init);
    this.cqs.add(cq);
    return cq;
  }

  forgetCq(cq: SimCompletionQueue): void {
    this.cqs.delete(cq);
  }

  override createCompletionChannel(): CompletionChannel {
    this.assertOpen();
    return new SimCompletionChannel(this);
  }

  createCompletionThread(): CompletionThread {
    throw new VerbsError(
      'VERBS_UNSUPPORTED',
      'a simulated device has no completion threads: everything happens on the one clock',
    );
  }

  directAccess(peer: QpAddress, remote: RemoteRegion): Uint8Array {
    const device = this.fabric.deviceOf(peer.av.gid);
    const region = device?.registered.get(remote.rkey);
    if (device === undefined || device.isClosed || device.isDead) {
      throw new VerbsError('VERBS_PEER_LOST', `no device of this fabric has the GID ${peer.av.gid}`);
    }
    if (region === undefined) throw new VerbsError('VERBS_INVALID', 'the key names no region of the peer');
    if (region.kind !== 'arena') {
      throw new VerbsError('VERBS_UNSUPPORTED', 'only memory of alloc is open to direct access');
    }
    const offset = remote.addr - region.addr;
    if (offset < 0 || offset + remote.length > region.length)
      throw new VerbsError('VERBS_INVALID', 'the range is not in the region');
    return region.bytes.subarray(offset, offset + remote.length);
  }

  adoptRegion(region: TableRegion): void {
    this.registered.set(region.rkey, region);
  }

  releaseRegion(region: TableRegion): void {
    this.registered.delete(region.rkey);
  }

  /** A number for a queue pair or one of its DC contexts; one that was released is not used again for long. */
  allocateNumber(qp: SimQueuePair): number {
    do this.nextNumber = this.nextNumber >= MULTICAST_QP - 1 ? FIRST_NUMBER : this.nextNumber + 1;
    while (this.queuePairs.has(this.nextNumber));
    this.queuePairs.set(this.nextNumber, qp);
    return this.nextNumber;
  }

  releaseNumber(number: number): void {
    this.queuePairs.delete(number);
  }

  /** Where the tokens of a new DC initiator start. */
  newToken(): number {
    this.tokens = (this.tokens + 0x100000) >>> 0;
    return this.tokens;
  }

  joinGroup(group: number, qp: SimQueuePair): void {
    const members = this.groupMembers.get(group) ?? [];
    members.push(qp);
    this.groupMembers.set(group, members);
    this.fabric.groups[group].members.set(this, members.length);
  }

  leaveGroup(group: number, qp: SimQueuePair): void {
    const members = (this.groupMembers.get(group) ?? []).filter((member) => member !== qp);
    this.groupMembers.set(group, members);
    if (members.length === 0) this.fabric.groups[group].members.delete(this);
    else this.fabric.groups[group].members.set(this, members.length);
  }

  receive(frame: Frame): void {
    const p = this.packet;
    if (this.isClosed || decodePacket(frame.bytes, frame.at, frame.at + frame.length, p) !== DecodeError.ok) return;
    if (frame.group >= 0) {
      for (const qp of (this.groupMembers.get(frame.group) ?? []).slice()) qp.receive(p, frame);
    } else if (p.destQp === CM_QP) {
      this.manager?.receive(p, frame);
    } else {
      this.queuePairs.get(p.destQp)?.receive(p, frame);
    }
  }

  fillRouteHeader(header: Uint8Array, frame: Frame): void {
    writeRouteHeader(header, frame.length + 4, UDP, this.fabric.devices[frame.from].gidBytes, this.gidBytes);
  }

  /** Calls as soon as the fabric goes on. */
  later(act: () => void): void {
    this.fabric.at(this.fabric.nowNs, act);
  }

  protected get connections(): ConnectionManager {
    this.manager ??= new ConnectionManager(this);
    return this.manager;
  }

  overran(cq: SimCompletionQueue): void {
    this.raise({
      type: 'CQ_ERR',
      words: `a completion queue of ${cq.depth} entries overran: poll more often or make it deeper`,
    });
    for (const qp of new Set(this.queuePairs.values())) if (qp.sendCq === cq || qp.recvCq === cq) this.later(() => qp.stop());
  }

  progress(): void {
    this.fabric.progress();
  }

  hold(on: boolean): void {
    this.fabric.hold(on);
  }

  after(ms: number, act: () => void): () => void {
    return this.fabric.at(this.fabric.nowNs + Math.ceil(ms * 1e6), act);
  }

  counters(): Counters {
    return { operations: this.operations, bytes: this.bytes, bytesCopied: this.bytes, systemCalls: 0, errors: this.errors };
  }

  /** The fault plan kills it: nothing leaves and nothing arrives any more. */
  die(): void {
    if (this.isDead || this.isClosed) return;
    this.isDead = true;
    this.raise({ type: 'DEVICE_FATAL', words: `${this.name} died by the fault plan` });
  }

  close(): void {
    if (this.isClosed) return;
    this.manager?.close();
    this.isClosed = true;
    for (const qp of new Set(this.queuePairs.values())) qp.shut();
    this.queuePairs.clear();
    for (const group of this.fabric.groups) group.members.delete(this);
    for (const pd of this.pds) pd.shut();
    for (const cq of [...this.cqs]) cq.shut();
    this.events.close();
  }
}
