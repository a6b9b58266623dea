/**
 * A context: one device with its protection domain, its registration cache and what the link costs. Workers come from it.
 */

import { type Device, openDevice, type ProtectionDomain } from '../verbs/index.js';
import { RegistrationCache } from './memory/registration-cache.js';
import { type ContextOptions, checkContextOptions, type WorkerOptions } from './options.js';
import { defaultCosts } from './protocols/costs.js';
import type { Costs } from './protocols/protocol.js';
import { readTuned } from './protocols/tuned-costs.js';
import { openWorker, type Worker } from './worker.js';

export class Context {
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly registrations: RegistrationCache;
  readonly costs: Costs;
  readonly #workers = new Set<Worker>();
  readonly #ownsDevice: boolean;

  /** @param device an open device, which stays open when the context closes; `openContext` opens one of its own. */
  constructor(device: Device, options: ContextOptions = {}, ownsDevice = false) {
    checkContextOptions(options);
    this.device = device;
    this.#ownsDevice = ownsDevice;
    this.pd = device.allocPd();
    this.registrations = new RegistrationCache(this.pd, options.registrations);
    this.costs = { ...defaultCosts(device.provider), ...readTuned(device.provider), ...options.costs };
  }

  /** Memory that peers reach without a copy through the kernel, registered already. Zeroed. Throws VERBS_NO_MEMORY. */
  alloc(byteLength: number): Uint8Array {
    const buffer = this.device.alloc(byteLength);
    const region = this.pd.register(buffer, { remoteRead: true, remoteWrite: true, remoteAtomic: true });
    this.registrations.adopt(buffer, region);
    return new Uint8Array(buffer);
  }

  /** Gives memory of `alloc` back. Throws VERBS_BUSY while a transfer uses it. */
  free(memory: Uint8Array): void {
    this.registrations.forget(memory.buffer as ArrayBuffer);
    this.device.free(memory.buffer as ArrayBuffer);
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
    this.registrations.close();
    if (this.#ownsDevice) this.device.close();
  }
}

/** Opens a device and makes a context of it. Throws VERBS_NO_DEVICE, MSG_INVALID. */
export async function openContext(options: ContextOptions = {}): Promise<Context> {
  checkContextOptions(options);
  const device = await openDevice(options.device ?? 'auto', options.name === undefined ? {} : { name: options.name });
  return new Context(device, options, true);
}
