/**
 * An RDMA device through libibverbs. Work requests and completions go through a block of numbers (command-block.ts); what happens by itself
 * (completion events, async events, connection management) comes through one descriptor that the event loop watches.
 *
 *     QueuePair.postSend ──> block ──run()──> ibv_post_send          CompletionQueue.poll <── records <──run()── ibv_poll_cq
 *     happened(...) <── epoll <── completion channel, async events, rdma-cm
 */

import { type Door, openDoor } from '../../../native/door.js';
import type { CompletionThread, CqInit } from '../../completion-queue.js';
import type { Capabilities, Counters, DeviceOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import { QP_TYPES, type QpType } from '../../opcode.js';
import type { AddressVector } from '../../qp-state.js';
import { systemError } from '../../system-error.js';
import { MappedMemory } from '../mapped-memory.js';
import { nameOf } from '../opening.js';
import { ProvidedDevice } from '../provided-device.js';
import { HAPPENED_ASYNC, HAPPENED_COMPLETION, type Handle, type IbverbsAddon } from './addon.js';
import { writeAddress } from './address-words.js';
import { eventOf } from './async-events.js';
import { CommandBlock } from './command-block.js';
import { IbverbsCompletionQueue } from './completion-queue.js';
import { ConnectionManager } from './connection-manager.js';
import { addressOf, type Choice, gidBytes, gidWords, isInfiniBand, isIwarp, type PortInfo, renewed } from './discovery.js';
import type { IbverbsMemoryRegion } from './memory-region.js';
import { IbverbsProtectionDomain } from './protection-domain.js';
import type { IbverbsQueuePair } from './queue-pair.js';

/** Inline sizes that are tried, because libibverbs cannot be asked. */
const INLINE_SIZES = [4096, 2048, 1024, 512, 256, 128, 64, 32, 16];

export class IbverbsDevice extends ProvidedDevice {
  readonly provider = 'ibverbs';
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly addon: IbverbsAddon;
  readonly handle: Handle;
  readonly block = new CommandBlock();
  readonly memory: MappedMemory;
  /** Device, port, GID and partition, and why these were taken; the port as it was at the last event. */
  choice: Choice;
  /** READs and atomics outstanding that the hardware can keep, as target and as initiator. */
  readonly maxTargetReads: number;
  readonly maxReads: number;
  private readonly door: Door;
  private readonly pds: IbverbsProtectionDomain[] = [];
  private readonly cqs = new Map<number, IbverbsCompletionQueue>();
  /** Queue pairs by the addon's number and by their own. */
  private readonly queuePairs = new Map<number, IbverbsQueuePair>();
  private readonly byNumber = new Map<number, IbverbsQueuePair>();
  private readonly regions = new Set<IbverbsMemoryRegion>();
  private manager: ConnectionManager | undefined;
  private holds = 0;
  private lastCounters: Counters | undefined;

  /** Opens the chosen port. Throws VERBS_INVALID for an option that means nothing here, VERBS_SYSTEM. */
  static open(addon: IbverbsAddon, choice: Choice, options: DeviceOptions): IbverbsDevice {
    return new IbverbsDevice(addon, choice, nameOf(options, 'ibverbs'));
  }

  private constructor(addon: IbverbsAddon, choice: Choice, name: string) {
    super();
    const { device, port } = choice;
    this.addon = addon;
    this.choice = choice;
    this.name = name;
    this.door = openDoor();
    this.memory = new MappedMemory(this.door, 'verbena-ibverbs', () => this.regions);
    const opened = addon.open(device.name, port.number, this.block.buffer, (...what) => this.happened(...what));
    if (typeof opened === 'number') throw systemError(opened, `cannot open ${device.name}`);
    this.handle = opened.handle;
    this.block.run = opened.run;
    this.maxReads = device.maxInitRd;
    this.maxTargetReads = device.maxRd;
    const plain: QpType[] = isIwarp(device) ? ['RC'] : ['RC', 'UC', 'UD'];
    const { maxInline, dc } = this.probe();
    this.capabilities = {
      qpTypes: dc ? [...plain, 'DCI', 'DCT'] : plain,
      maxInline,
      maxSge: Math.min(64, device.maxSge),
      maxMessage: port.maxMessage || 2 ** 31,
      maxQpWr: Math.min(65536, device.maxQpWr),
      mtu: Math.min(4096, port.activeMtu),
      atomics: device.atomics === 0 ? 'none' : device.atomics === 2 ? 'global' : 'hca',
      srq: device.maxSrq > 0,
      multicast: device.maxMulticast > 0 && !isIwarp(device),
      dc,
      onDemand: device.onDemand,
      umr: false,
      memoryWindows: false,
      privateMemory: true,
      mappedFiles: true,
      directAccess: false,
      peerDeath: false,
      virtualTime: false,
    };
    this.closeAtExit(true);
  }

  /** What only trying tells: the most bytes that a queue pair can send inline, and whether a device whose driver knows DC makes such queue pairs. */
  private probe(): { maxInline: number; dc: boolean } {
    const { addon, handle, block } = this;
    const pd = addon.allocPd(handle);
    const cq = addon.createCq(handle, 1, 1);
    if (pd < 0 || typeof cq === 'number') return { maxInline: 0, dc: false };
    const canMake = (type: QpType, inline: number): boolean => {
      block.arguments.set([pd, cq[0], cq[0], 0, QP_TYPES.indexOf(type), 1, 1, 1, 1, inline, 0, 0]);
      const made = addon.createQp(handle);
      if (typeof made === 'number') return false;
      addon.destroy(handle, made[0]);
      return true;
    };
    const maxInline = INLINE_SIZES.find((size) => canMake('RC', size)) ?? 0;
    const dc = this.choice.device.dc && canMake('DCI', 0);
    addon.destroy(handle, cq[0]);
    addon.destroy(handle, pd);
    return { maxInline, dc };
  }

  get gid(): string {
    return gidWords(this.choice.gid);
  }

  override get av(): AddressVector {
    const { device, port } = this.choice;
    return isInfiniBand(device, port) ? { gid: this.gid, lid: port.lid } : { gid: this.gid };
  }

  /** Puts the way to a peer into the block's arguments. Throws VERBS_INVALID for an address that is none. */
  writeAddress(av: AddressVector): void {
    const { device, port, gid, serviceLevel, trafficClass } = this.choice;
    const own = isInfiniBand(device, port) ? gidBytes(gid) : undefined;
    writeAddress(this.block, av, { ownGid: own, gidIndex: gid.index, serviceLevel, trafficClass });
  }

  // ---- what happens by itself ----

  private happened(kind: number, object: number, type: number, status: number, privateData: Uint8Array, listener: number): void {
    if (this.isClosed) return;
    if (kind === HAPPENED_COMPLETION) this.cqs.get(object)?.rang();
    else if (kind === HAPPENED_ASYNC) this.raised(type, object);
    else this.manager?.happened(object, type, status, privateData, listener);
  }

  private raised(code: number, object: number): void {
    const { type, words, about } = eventOf(code);
    if (type === undefined) return;
    if (about === 'port' && object !== this.choice.port.number) return; // another port of the same device
    if (about === 'port') this.renew();
    const qp = about === 'qp' ? this.queuePairs.get(object) : undefined;
    if (about === 'cq') this.cqs.get(object)?.failed();
    if (about === 'device') this.fell(words);
    if (qp?.raised(type) === false) return;
    this.raise({ type, words, ...(qp && { qpNum: qp.qpNum, peer: qp.peerName }) });
  }

  /** Reads the port again. What cannot be asked stays as it was: the device says by another event that it failed. */
  private renew(): void {
    const text = this.addon.portNow(this.handle);
    if (typeof text === 'string') this.choice = renewed(this.choice, JSON.parse(text) as PortInfo);
  }

  /** The device failed, or was taken out: there will be no completions. */
  private fell(words: string): void {
    for (const qp of this.queuePairs.values()) qp.raised('DEVICE_FATAL');
    for (const cq of this.cqs.values()) cq.failed(new VerbsError('VERBS_NO_DEVICE', words));
  }

  /** Takes what has happened. */
  progress(): void {
    if (!this.isClosed) this.addon.progress(this.handle);
  }

  hold(on: boolean): void {
    this.holds += on ? 1 : -1;
    if (!this.isClosed) this.addon.hold(this.handle, this.holds > 0 ? 1 : 0);
  }

  // ---- objects ----

  allocPd(): IbverbsProtectionDomain {
    this.assertOpen();
    const pd = new IbverbsProtectionDomain(this);
    this.pds.push(pd);
    return pd;
  }

  createCq(init: CqInit = {}): IbverbsCompletionQueue {
    this.assertOpen();
    const cq = new IbverbsCompletionQueue(this, init);
    this.cqs.set(cq.object, cq);
    return cq;
  }

  forgetCq(cq: IbverbsCompletionQueue): void {
    this.cqs.delete(cq.object);
  }

  createCompletionThread(): CompletionThread {
    throw new VerbsError('VERBS_UNSUPPORTED', "an RDMA device raises completion events by itself: use a queue in 'event' mode");
  }

  adoptQueuePair(qp: IbverbsQueuePair): void {
    this.queuePairs.set(qp.object, qp);
    this.byNumber.set(qp.qpNum, qp);
  }

  /** A queue pair got its number later than its making. */
  renumber(qp: IbverbsQueuePair): void {
    this.byNumber.delete(qp.qpNum);
    qp.qpNum = this.addon.numberOf(this.handle, qp.object);
    this.byNumber.set(qp.qpNum, qp);
  }

  releaseQueuePair(qp: IbverbsQueuePair): void {
    this.queuePairs.delete(qp.object);
    this.byNumber.delete(qp.qpNum);
    this.manager?.queuePairClosed(qp);
  }

  queuePair(qpNum: number): IbverbsQueuePair | undefined {
    return this.byNumber.get(qpNum);
  }

  // ---- memory ----

  directAccess(): Uint8Array {
    throw new VerbsError('VERBS_UNSUPPORTED', 'the memory of a peer is behind the NIC: use RDMA_READ and RDMA_WRITE');
  }

  adoptRegion(region: IbverbsMemoryRegion): void {
    this.regions.add(region);
  }

  releaseRegion(region: IbverbsMemoryRegion): void {
    this.regions.delete(region);
  }

  // ---- connections and events ----

  protected get connections(): ConnectionManager {
    this.manager ??= new ConnectionManager(this, () => addressOf(this.choice));
    return this.manager;
  }

  counters(): Counters {
    if (this.lastCounters) return this.lastCounters;
    const { operations, bytesPosted, errors } = this.block;
    // The NIC moves the bytes; what a driver does inside is not seen from here.
    return { operations, bytes: bytesPosted, bytesCopied: 0, systemCalls: 0, errors };
  }

  close(): void {
    if (this.isClosed) return;
    this.lastCounters = this.counters();
    this.manager?.close();
    for (const qp of this.queuePairs.values()) qp.leaveGroups();
    this.isClosed = true;
    this.closeAtExit(false);
    for (const qp of this.queuePairs.values()) qp.shut();
    for (const pd of this.pds) pd.shut();
    for (const cq of [...this.cqs.values()]) cq.shut();
    this.events.close();
    this.addon.close(this.handle);
    this.queuePairs.clear();
    this.byNumber.clear();
    this.regions.clear();
  }
}
