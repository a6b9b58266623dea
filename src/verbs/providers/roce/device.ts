/**
 * A RoCEv2 device in the program's thread: objects, numbers and addresses. The socket and the transport live in the engine's thread
 * (engine.ts); this side posts into shared queues, takes completions out of shared rings, and gives commands when objects are made,
 * changed or closed.
 *
 *     program's thread                                     engine's thread
 *     QueuePair.postSend ──> send queue, doorbell ──────>  RcEndpoint, UdEndpoint, ...  <──> socket
 *     CompletionQueue.poll <── completion ring <─────────  completions
 *     call(command) ────────────────────────────────────>  execute     (waits for the answer)
 *     progress() <── notices <───────────────────────────  states, events, connection management
 */

import { constants } from 'node:os';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { type Door, openDoor } from '../../../native/door.js';
import { addonPath } from '../../../native/load.js';
import type { CompletionThread, CqInit } from '../../completion-queue.js';
import type { AsyncEventType, Capabilities, Counters, DeviceOptions } from '../../device.js';
import { VerbsError } from '../../errors.js';
import { gidText, parseIp } from '../../ip-address.js';
import type { AddressVector } from '../../qp-state.js';
import { systemError } from '../../system-error.js';
import { RegionTable } from '../../transport/region-table.js';
import { MAX_MESSAGE_BYTES } from '../../transport/segmentation.js';
import { MappedMemory } from '../mapped-memory.js';
import { nameOf } from '../opening.js';
import { ProvidedDevice } from '../provided-device.js';
import type { TableRegion } from '../table-region.js';
import { type LocalAddress, ROCE_PORT } from './address.js';
import { RoceCompletionQueue } from './completion-queue.js';
import { ConnectionManager } from './connection-manager.js';
import { RoceCounters } from './counters.js';
import type { DeviceObjects } from './inline-engine.js';
import { Lease } from './lease.js';
import type { RoceMemoryRegion } from './memory-region.js';
import type { Answer, Command, EngineData, Notice } from './messages.js';
import { RoceProtectionDomain } from './protection-domain.js';
import type { RoceQueuePair } from './queue-pair.js';
import { StatusPage } from './status-page.js';
import { MAX_QUEUE_PAIRS, Switchboard } from './switchboard.js';

/** What the kernel is asked to queue; it grants what its limit allows. */
const BUFFER_BYTES = 8 << 20;
/** Longest busy wait of the engine, microseconds. */
const SPIN_US = 20;
/** Longest wait for the engine's answer. It never waits for the program, so this is a failure. */
const ANSWER_MS = 20_000;
const MIN_WINDOW = 16;
const MAX_WINDOW = 256;
/** Queue pair numbers below are for management; the ones from 0x800000 on are the engine's. */
const FIRST_NUMBER = 16;
const LAST_NUMBER = 0x7fffff;
/** Addresses of indexed and strided regions: where no memory is. */
const FIRST_ADDRESS = 2 ** 48;
/** Other ports are tried in this range; above are those that others send from. */
const FIRST_PORT = 20_000;
const PORTS = 12_768;

/** Commands that change none of the objects that the data path works on. */
const PASSIVE: ReadonlySet<Command['kind']> = new Set(['lend', 'packet', 'counters', 'path']);

const EVENT_WORDS: Readonly<Partial<Record<AsyncEventType, string>>> = {
  QP_REQ_ERR: 'the peer sent a request that this queue pair refused as invalid; the queue pair went to the error state',
  QP_ACCESS_ERR: 'the peer used a key, range or right that it does not have; the queue pair went to the error state',
  SQ_DRAINED: 'the send queue is drained: everything posted before is complete',
};

export class RoceDevice extends ProvidedDevice {
  readonly provider = 'roce';
  readonly name: string;
  readonly gid: string;
  /** The IP address, 4 or 16 bytes. */
  readonly address: Uint8Array;
  /** UDP port. Only 4791 reaches kernels and hardware. */
  readonly port: number;
  readonly capabilities: Capabilities;
  readonly regions = new RegionTable(FIRST_ADDRESS);
  readonly memory: MappedMemory;
  readonly door: Door;
  /** Whether this thread runs the data path itself. */
  readonly lease: Lease;
  /** Counts changes of the objects that the data path works on. */
  version = 0;
  private readonly board: Switchboard;
  /** What the device shows of itself to other processes. */
  readonly page: StatusPage;
  private readonly datagram: number;
  private readonly bell: number;
  private readonly commands: MessagePort;
  private readonly notices: MessagePort;
  private readonly worker: Worker;
  private readonly queuePairs = new Map<number, RoceQueuePair>();
  private readonly freeSlots: number[] = [];
  private readonly pds: RoceProtectionDomain[] = [];
  private readonly cqs = new Map<number, RoceCompletionQueue>();
  private readonly registered = new Map<number, RoceMemoryRegion>();
  private manager: ConnectionManager | undefined;
  private lastCounters = new RoceCounters();
  private slots = 0;
  private nextNumber = FIRST_NUMBER;
  private nextId = 0;
  private holds = 0;

  /** Opens a socket and starts the engine. Throws VERBS_INVALID, VERBS_BUSY when the port is taken, VERBS_SYSTEM. */
  static async open(local: LocalAddress, options: DeviceOptions): Promise<RoceDevice> {
    const device = new RoceDevice(local, nameOf(options, 'roce'));
    try {
      await device.started();
    } catch (error) {
      device.close();
      throw error;
    }
    return device;
  }

  private constructor(local: LocalAddress, name: string) {
    super();
    this.name = name;
    this.door = openDoor();
    this.memory = new MappedMemory(this.door, 'verbena-roce', () => this.registered.values());
    const { addon } = this.door;
    this.datagram = openSocket(this.door, local);
    this.port = addon.datagramPort(this.datagram);
    this.address = parseIp(local.host) as Uint8Array;
    this.gid = gidText(this.address);
    this.page = new StatusPage(this.door, name, `${local.host} port ${this.port}`);
    const board = Switchboard.make();
    this.board = new Switchboard(board);
    const bell = addon.bellOpen(() => this.rang());
    if (typeof bell === 'number') throw systemError(bell, 'cannot make a bell');
    this.bell = bell[0];
    const commands = new MessageChannel();
    const notices = new MessageChannel();
    this.commands = commands.port1;
    this.notices = notices.port1;
    // As the kernel counts, a packet takes about twice its bytes; all of the window must fit the peer's queue, which is like this one.
    const window = Math.floor(addon.datagramBuffer(this.datagram) / (2 * (local.mtu + 768)));
    const data: EngineData = {
      datagram: this.datagram,
      address: this.address,
      port: this.port,
      mtu: local.mtu,
      window: Math.max(MIN_WINDOW, Math.min(MAX_WINDOW, window)),
      board,
      bell: bell[1],
      spinUs: SPIN_US,
      statusPage: this.page.address,
      seed: Math.floor(Math.random() * 2 ** 32),
    };
    this.lease = new Lease(this, data, this.board);
    this.worker = new Worker(new URL('./engine-thread.js', import.meta.url), {
      name: `roce ${name}`,
      execArgv: [],
      env: { ...process.env, VERBENA_ADDON: addonPath() },
      workerData: { data, commands: commands.port2, notices: notices.port2 },
      transferList: [commands.port2, notices.port2],
    });
    this.capabilities = {
      qpTypes: ['RC', 'UC', 'UD', 'DCI', 'DCT'],
      maxInline: 4096,
      maxSge: 64,
      maxMessage: MAX_MESSAGE_BYTES,
      maxQpWr: 65536,
      mtu: local.mtu,
      atomics: 'global',
      srq: true,
      // The kernel carries no multicast of IPv6 over the loopback.
      multicast: local.host !== '::1',
      dc: true,
      onDemand: true,
      umr: true,
      memoryWindows: false,
      privateMemory: true,
      mappedFiles: true,
      directAccess: false,
      peerDeath: false,
      virtualTime: false,
    };
    this.closeAtExit(true);
  }

  private async started(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.worker.once('message', () => resolve());
      this.worker.once('error', reject);
      this.worker.once('exit', () => reject(new VerbsError('VERBS_SYSTEM', 'the thread of the RoCE engine ended at once')));
    });
    this.worker.removeAllListeners();
    this.worker.on('error', () => {});
    this.worker.unref();
  }

  override get av(): AddressVector {
    return { gid: this.gid, ...(this.port !== ROCE_PORT && { port: this.port }) };
  }

  // ---- the engine ----

  /** Gives the engine a command and waits for its answer. Throws VERBS_INVALID with the engine's words. */
  call(command: Command): unknown {
    this.assertOpen();
    const { board } = this;
    let seen = board.answers;
    if (!PASSIVE.has(command.kind)) this.version++;
    this.commands.postMessage(command);
    const isAsleep = board.announceCommand();
    if (this.lease.end() || isAsleep) this.wake();
    for (;;) {
      const received = receiveMessageOnPort(this.commands);
      if (received) {
        const answer = received.message as Answer;
        if ('error' in answer) throw new VerbsError('VERBS_INVALID', answer.error);
        return answer.value;
      }
      if (board.isDead || !board.awaitAnswer(seen, ANSWER_MS)) {
        throw new VerbsError(
          'VERBS_SYSTEM',
          "the device's engine does not answer: see its DEVICE_FATAL event, and open a new device",
        );
      }
      seen = board.answers;
    }
  }

  /** Tells the engine that a queue pair has requests. */
  ring(slot: number): void {
    if (this.lease.posted(slot)) return;
    if (this.board.ringDoorbell(slot)) this.wake();
  }

  /** The program is going to sleep: the engine has to work. */
  sleepSoon(): void {
    this.lease.forget();
    if (this.lease.end()) this.wake();
  }

  /** All that the data path works on. */
  objects(): DeviceObjects {
    return {
      regions: [...this.registered.values()].map(({ record }) => record),
      queuePairs: [...this.queuePairs.values()].map((qp) => qp.borrowed()),
    };
  }

  private wake(): void {
    this.door.command[0] = this.datagram;
    this.door.addon.datagramWake();
  }

  /** Takes what the engine has told. */
  progress(): void {
    if (this.isClosed || this.board.takeNotices() === 0) return;
    for (let received = receiveMessageOnPort(this.notices); received; received = receiveMessageOnPort(this.notices)) {
      this.noticed(received.message as Notice);
    }
  }

  noticed(notice: Notice): void {
    switch (notice.kind) {
      case 'state':
        this.queuePairs.get(notice.qpNum)?.entered(notice.state, notice.epoch);
        return;
      case 'event': {
        const { type, qpNum } = notice;
        const peer = qpNum === undefined ? undefined : this.queuePairs.get(qpNum)?.peerName;
        const words = notice.words ?? EVENT_WORDS[type] ?? type;
        this.raise({ type, words, ...(qpNum !== undefined && { qpNum }), ...(peer !== undefined && { peer }) });
        return;
      }
      case 'invalidated':
        this.regions.revoke(notice.key);
        return;
      default:
        this.manager?.noticed(notice);
    }
  }

  /** The engine rang: somebody sleeps, or sleeps no longer. */
  private rang(): void {
    if (this.isClosed) return;
    this.board.hearBell();
    this.progress();
    for (const cq of [...this.cqs.values()]) cq.rang();
  }

  hold(on: boolean): void {
    this.holds += on ? 1 : -1;
    if (!this.isClosed) this.door.addon.bellHold(this.bell, this.holds > 0 ? 1 : 0);
  }

  // ---- objects ----

  allocPd(): RoceProtectionDomain {
    this.assertOpen();
    const pd = new RoceProtectionDomain(this, this.pds.length + 1);
    this.pds.push(pd);
    return pd;
  }

  createCq(init: CqInit = {}): RoceCompletionQueue {
    this.assertOpen();
    const cq = new RoceCompletionQueue(this, init);
    this.cqs.set(cq.number, cq);
    return cq;
  }

  forgetCq(cq: RoceCompletionQueue): void {
    this.cqs.delete(cq.number);
  }

  /** A number for an object of the engine. */
  newId(): number {
    this.nextId++;
    return this.nextId;
  }

  createCompletionThread(): CompletionThread {
    throw new VerbsError('VERBS_UNSUPPORTED', 'a RoCE device has a thread of its own already: it makes the completions');
  }

  adoptQueuePair(qp: RoceQueuePair): { slot: number; qpNum: number } {
    const slot = this.freeSlots.pop() ?? this.slots++;
    if (slot >= MAX_QUEUE_PAIRS) {
      this.slots--;
      throw new VerbsError('VERBS_NO_MEMORY', `a RoCE device has at most ${MAX_QUEUE_PAIRS} queue pairs: close some`);
    }
    do this.nextNumber = this.nextNumber >= LAST_NUMBER ? FIRST_NUMBER : this.nextNumber + 1;
    while (this.queuePairs.has(this.nextNumber));
    this.queuePairs.set(this.nextNumber, qp);
    this.page.queuePairs = this.queuePairs.size;
    return { slot, qpNum: this.nextNumber };
  }

  releaseQueuePair(slot: number, qpNum: number): void {
    this.queuePairs.delete(qpNum);
    this.page.queuePairs = this.queuePairs.size;
    this.freeSlots.push(slot);
  }

  queuePair(qpNum: number): RoceQueuePair | undefined {
    return this.queuePairs.get(qpNum);
  }

  // ---- memory ----

  directAccess(): Uint8Array {
    throw new VerbsError('VERBS_UNSUPPORTED', 'the memory of a RoCE peer is on another host: use RDMA_READ and RDMA_WRITE');
  }

  adoptRegion(region: TableRegion): void {
    this.registered.set(region.rkey, region as RoceMemoryRegion);
  }

  releaseRegion(region: TableRegion): void {
    this.registered.delete(region.rkey);
  }

  // ---- connections and events ----

  protected get connections(): ConnectionManager {
    this.manager ??= new ConnectionManager(this);
    return this.manager;
  }

  counters(): Counters {
    const { operations, bytes, bytesSent, bytesReceived, systemCalls, errors } = this.transportCounters();
    return { operations, bytes, bytesCopied: bytesSent + bytesReceived, systemCalls, errors };
  }

  /** Everything that is counted: packets, repetitions, and what was dropped, by reason. */
  transportCounters(): Readonly<Record<keyof RoceCounters, number>> {
    if (!this.isClosed) this.lastCounters = this.added(this.call({ kind: 'counters' }) as RoceCounters);
    return this.lastCounters;
  }

  /** With what this thread has counted while it ran the data path. */
  private added(counters: RoceCounters): RoceCounters {
    const own = this.lease.counters;
    if (own) for (const name of Object.keys(counters) as (keyof RoceCounters)[]) counters[name] += own[name];
    return counters;
  }

  close(): void {
    if (this.isClosed) return;
    this.manager?.close();
    try {
      this.lastCounters = this.added(this.call({ kind: 'close' }) as RoceCounters);
    } catch {
      // An engine that has failed already has nothing to close.
    }
    this.isClosed = true;
    this.board.stop();
    this.wake();
    this.closeAtExit(false);
    for (const qp of this.queuePairs.values()) qp.shut();
    this.queuePairs.clear();
    for (const pd of this.pds) pd.shut();
    for (const cq of [...this.cqs.values()]) cq.shut();
    this.events.close();
    this.commands.close();
    this.notices.close();
    this.door.addon.bellClose(this.bell);
    this.door.addon.stop(this.datagram);
    void this.worker.terminate();
    this.page.close();
  }
}

/** The socket of a device: at the port asked for, else at 4791 when it is free, else at another. */
function openSocket(door: Door, local: LocalAddress): number {
  const tries = local.port !== 0 ? [local.port] : [ROCE_PORT, ...Array.from({ length: 64 }, randomPort)];
  let errno = 0;
  for (const port of tries) {
    const datagram = door.addon.datagramOpen(local.network, local.host, port, BUFFER_BYTES);
    if (datagram > 0) return datagram;
    errno = -datagram;
    if (errno !== constants.errno.EADDRINUSE) break;
  }
  if (errno === constants.errno.EADDRINUSE) {
    throw new VerbsError('VERBS_BUSY', `UDP port ${local.port || ROCE_PORT} of ${local.host} is taken: name another one`);
  }
  const code = errno === constants.errno.EADDRNOTAVAIL ? 'VERBS_NO_DEVICE' : 'VERBS_SYSTEM';
  throw systemError(errno, `cannot open a UDP socket on ${local.host}`, code);
}

function randomPort(): number {
  return FIRST_PORT + Math.floor(Math.random() * PORTS);
}
