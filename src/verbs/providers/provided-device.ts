/** What every provider's device does the same way: it is open or closed, raises events, keeps the process alive for those who wait, listens and connects. */

import {
  CompletionChannel,
  type CompletionQueue,
  type CompletionThread,
  type CqInit,
  type WaitOptions,
} from '../completion-queue.js';
import type { Connection, ConnectOptions, Listener } from '../connection.js';
import type { AllocOptions, AsyncEvent, Capabilities, Counters, Device, MapFileOptions } from '../device.js';
import { VerbsError } from '../errors.js';
import type { RemoteRegion } from '../memory-region.js';
import type { ProtectionDomain } from '../protection-domain.js';
import type { AddressVector } from '../qp-state.js';
import type { QpAddress, QueuePair } from '../queue-pair.js';
import { EventQueue } from './event-queue.js';
import type { WaitHost } from './waiting.js';

/** Who listens and connects for a device. */
export interface Connector {
  listen(name: string): Listener | Promise<Listener>;
  connect(name: string, qp: QueuePair, options: ConnectOptions): Promise<Connection>;
}

/** The memory that a device hands out. */
interface DeviceMemory {
  alloc(byteLength: number, options: AllocOptions): ArrayBuffer;
  free(memory: ArrayBuffer): void;
  mapFile(path: string, options: MapFileOptions): ArrayBuffer;
}

const openUntilExit = new Set<Device>();

function closeAll(): void {
  for (const device of [...openUntilExit]) device.close();
}

export abstract class ProvidedDevice implements Device, WaitHost {
  abstract readonly provider: string;
  abstract readonly name: string;
  abstract readonly gid: string;
  abstract readonly capabilities: Capabilities;
  abstract readonly memory: DeviceMemory;
  isClosed = false;
  protected readonly events = new EventQueue();

  abstract allocPd(): ProtectionDomain;
  abstract createCq(init?: CqInit): CompletionQueue;
  abstract createCompletionThread(options?: { cpu?: number; numaNode?: number }): CompletionThread;
  abstract directAccess(peer: QpAddress, remote: RemoteRegion): Uint8Array;
  abstract counters(): Counters;
  abstract close(): void;
  /** Carries forward what waits, and takes what has happened. */
  abstract progress(): void;
  /** Keeps the process alive while somebody waits; calls pair up. */
  abstract hold(on: boolean): void;
  protected abstract readonly connections: Connector;

  /** What peers put into their address vectors to reach this device. */
  get av(): AddressVector {
    return { gid: this.gid };
  }

  /** Throws VERBS_CLOSED. */
  assertOpen(): void {
    if (this.isClosed) throw new VerbsError('VERBS_CLOSED', 'the device is closed');
  }

  /** Has the process close this device before it ends, or no longer. */
  protected closeAtExit(on: boolean): void {
    if (on && openUntilExit.size === 0) process.on('exit', closeAll);
    if (on) openUntilExit.add(this);
    else openUntilExit.delete(this);
    if (!on && openUntilExit.size === 0) process.off('exit', closeAll);
  }

  alloc(byteLength: number, options: AllocOptions = {}): ArrayBuffer {
    this.assertOpen();
    return this.memory.alloc(byteLength, options);
  }

  free(memory: ArrayBuffer): void {
    if (!this.isClosed) this.memory.free(memory); // else it went with the device
  }

  mapFile(path: string, options: MapFileOptions = {}): ArrayBuffer {
    this.assertOpen();
    return this.memory.mapFile(path, options);
  }

  createCompletionChannel(): CompletionChannel {
    this.assertOpen();
    return new CompletionChannel();
  }

  async listen(name: string): Promise<Listener> {
    this.assertOpen();
    return this.connections.listen(name);
  }

  async connect(name: string, qp: QueuePair, options: ConnectOptions = {}): Promise<Connection> {
    this.assertOpen();
    return this.connections.connect(name, qp, options);
  }

  raise(event: AsyncEvent): void {
    this.events.push(event);
  }

  pollEvent(): AsyncEvent | undefined {
    this.progress();
    return this.events.take();
  }

  nextEvent(options: WaitOptions = {}): Promise<AsyncEvent> {
    this.progress();
    return this.events.next(this, options);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
