/**
 * A context: the devices that messages go over, and the memory they know. Workers come from it.
 *
 * With several devices a worker reaches each peer by the best one that both have: shared memory on the same machine, a network elsewhere; devices of one
 * kind on both sides carry large transfers together (docs/messaging.md).
 */

import { type Device, openDevice, type ProtectionDomain } from '../verbs/index.js';
import { MessagingError } from './errors.js';
import { hostIdentity } from './host-identity.js';
import type { RegistrationCache } from './memory/registration-cache.js';
import { type ContextOptions, checkContextOptions, type WorkerOptions } from './options.js';
import type { Costs } from './protocols/protocol.js';
import { MOST_RAILS, Rail } from './rail.js';
import { openWorker, type Worker } from './worker.js';

export class Context {
  /** The devices in the order they were given. */
  readonly rails: readonly Rail[];
  /** Equal bytes: the same machine. */
  readonly host: Uint8Array;
  readonly #workers = new Set<Worker>();
  readonly #ownsDevices: boolean;
  readonly #home: Rail;

  /** @param devices one open device or several, which stay open when the context closes; `openContext` opens its own. */
  constructor(devices: Device | readonly Device[], options: ContextOptions = {}, ownsDevices = false) {
    checkContextOptions(options);
    const list = Array.isArray(devices) ? (devices as readonly Device[]) : [devices as Device];
    if (list.length < 1 || list.length > MOST_RAILS) {
      throw new MessagingError('MSG_INVALID', `a context has 1 to ${MOST_RAILS} devices: got ${list.length}`);
    }
    this.#ownsDevices = ownsDevices;
    this.rails = list.map((device, index) => new Rail(index, device, options.registrations, options.costs));
    this.#home = this.rails.find((rail) => rail.isLocal) ?? this.rails[0];
    this.host = hostIdentity(options.host);
  }

  /** The first device. */
  get device(): Device {
    return this.rails[0].device;
  }

  get pd(): ProtectionDomain {
    return this.rails[0].pd;
  }

  get registrations(): RegistrationCache {
    return this.rails[0].registrations;
  }

  get costs(): Costs {
    return this.rails[0].costs;
  }

  /** Memory that peers reach without a copy through the kernel, registered with every device. Zeroed. Throws VERBS_NO_MEMORY. */
  alloc(byteLength: number): Uint8Array {
    const buffer = this.#home.device.alloc(byteLength);
    for (const rail of this.rails) {
      // Only the device that the memory comes from runs atomics on it.
      const remoteAtomic = rail === this.#home;
      rail.registrations.adopt(buffer, rail.pd.register(buffer, { remoteRead: true, remoteWrite: true, remoteAtomic }));
    }
    return new Uint8Array(buffer);
  }

  /** Gives memory of `alloc` back. Throws VERBS_BUSY while a transfer uses it. */
  free(memory: Uint8Array): void {
    for (const { registrations } of this.rails) registrations.forget(memory.buffer as ArrayBuffer);
    this.#home.device.free(memory.buffer as ArrayBuffer);
  }

  /** A worker: endpoints, listeners, and the one who makes progress for them. Throws MSG_INVALID for bad options. */
  async createWorker(options: WorkerOptions = {}): Promise<Worker> {
    const worker = await openWorker(this, options);
    this.#workers.add(worker);
    return worker;
  }

  /** Called by a worker that has closed. */
  forget(worker: Worker): void {
    this.#workers.delete(worker);
  }

  /** Closes the workers at once (forced) and everything else. Idempotent. */
  async close(): Promise<void> {
    for (const worker of [...this.#workers]) await worker.close({ force: true });
    for (const { registrations, device } of this.rails) {
      registrations.close();
      if (this.#ownsDevices) device.close();
    }
  }
}

/** Opens devices and makes a context of them. Throws VERBS_NO_DEVICE, MSG_INVALID. */
export async function openContext(options: ContextOptions = {}): Promise<Context> {
  checkContextOptions(options);
  const { engine = 'verbs', device = engine === 'ucx' ? 'ucx' : 'auto', name } = options;
  const opened: Device[] = [];
  try {
    for (const one of typeof device === 'string' ? [device] : device) {
      opened.push(await openDevice(one, name === undefined ? {} : { name }));
    }
    return new Context(opened, options, true);
  } catch (error) {
    for (const one of opened) one.close();
    throw error;
  }
}
