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

const openUntilExit = new Set<Device>();

function closeAll(): void {
  for (const device of [...openUntilExit]) device.close();
}

export abstract class ProvidedDevice implements Device, WaitHost {
  abstract readonly provider: string;
  abstract readonly name: string;
  abstract readonly gid: string;
  abstract readonly capabilities: Capabilities;
  isClosed = false;
  protected readonly events = new EventQueue();

  abstract allocPd(): ProtectionDomain;
  abstract createCq(init?: CqInit): CompletionQueue;
  abstract createCompletionThread(options?: { cpu?: number; numaNode?: number }): CompletionThread;
  abstract alloc(byteLength: number, options?: AllocOptions): ArrayBuffer;
  abstract free(memory: ArrayBuffer): void;
  abstract mapFile(path: string, options?: MapFileOptions): ArrayBuffer;
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
