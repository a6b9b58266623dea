/**
 * A context: what messages go over, and the memory it knows. Workers come from it. It stands on the devices of the verbs engine, or on UCX.
 */

import { VerbsError } from '../verbs/errors.js';
import type { Device, MapFileOptions, ProtectionDomain } from '../verbs/index.js';
import { openDevice } from '../verbs/open-device.js';
import { hostIdentity } from './host-identity.js';
import type { RegistrationCache } from './memory/registration-cache.js';
import { type ContextOptions, checkContextOptions, ucxSettings, type WorkerOptions } from './options.js';
import type { Costs } from './protocols/protocol.js';
import type { Rail } from './rail.js';
import { VerbsFabric } from './verbs-fabric.js';
import type { Worker } from './worker.js';

/** What a context stands on. */
export interface Fabric {
  /** 'shm', 'roce', 'ucx': of the first device. */
  readonly provider: string;
  /** How this process is named to others. */
  readonly name: string;
  alloc(byteLength: number): Uint8Array;
  free(memory: Uint8Array): void;
  revoke(memory: Uint8Array): void;
  mapFile(path: string, options: MapFileOptions): Uint8Array;
  openWorker(context: Context, options: WorkerOptions): Promise<Worker>;
  close(): void;
}

export class Context {
  /** Equal bytes: the same machine. */
  readonly host: Uint8Array;
  readonly #workers = new Set<Worker>();
  readonly #fabric: Fabric;

  /**
   * @param on one open device or several; `openContext` opens its own, or UCX.
   * @param ownsDevices whether the devices are closed with the context.
   */
  constructor(on: Device | readonly Device[] | Fabric, options: ContextOptions = {}, ownsDevices = false) {
    checkContextOptions(options);
    this.#fabric = 'openWorker' in on ? on : new VerbsFabric(on, options, ownsDevices);
    this.host = hostIdentity(options.host);
  }

  /** What carries the messages: 'shm', 'roce', 'ucx'; of several devices the first. */
  get provider(): string {
    return this.#fabric.provider;
  }

  /** How this process is named to others. */
  get name(): string {
    return this.#fabric.name;
  }

  get #verbs(): VerbsFabric {
    return VerbsFabric.of(this.#fabric);
  }

  /** The devices in the order they were given. Throws MSG_UNSUPPORTED on UCX, as do the getters of the first device. */
  get rails(): readonly Rail[] {
    return this.#verbs.rails;
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
    return this.#fabric.alloc(byteLength);
  }

  /** Gives memory of `alloc` back. Throws VERBS_BUSY while a request uses it: a send that was not taken yet, a receive that waits. */
  free(memory: Uint8Array): void {
    for (const worker of this.#workers) {
      const { requests } = worker;
      for (const row of requests.pending()) {
        const { bytes, pieces = [bytes] } = row.payload ?? {};
        if (!pieces.some((piece) => piece?.buffer === memory.buffer)) continue;
        const words = `a ${requests.describe(row)} uses this memory: wait for its end, cancel it or close its endpoint, then free`;
        throw new VerbsError('VERBS_BUSY', words);
      }
    }
    this.#fabric.free(memory);
  }

  /**
   * Takes the keys of memory of `alloc` back: what peers do by them fails from now on. UCX's keys cannot be taken back; there a peer reaches memory for as long as its
   * endpoint is open, and on shared memory while it lives.
   */
  revoke(memory: Uint8Array): void {
    this.#fabric.revoke(memory);
  }

  /** A file as memory that can be exposed and sent from. Throws VERBS_SYSTEM with the path, VERBS_INVALID for a range that is not in it. */
  mapFile(path: string, options: MapFileOptions = {}): Uint8Array {
    return this.#fabric.mapFile(path, options);
  }

  /** A worker: endpoints, listeners, and the one who makes progress for them. Throws MSG_INVALID for bad options, VERBS_NO_MEMORY. */
  async createWorker(options: WorkerOptions = {}): Promise<Worker> {
    const worker = await this.#fabric.openWorker(this, options);
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
    this.#fabric.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Opens devices, or UCX, and makes a context of them. Throws VERBS_NO_DEVICE, MSG_INVALID. */
export async function openContext(options: ContextOptions = {}): Promise<Context> {
  checkContextOptions(options);
  const { device = 'auto', name } = options;
  const settings = ucxSettings(options);
  if (settings !== undefined) {
    const { UcxFabric } = await import('./ucx/fabric.js');
    return new Context(new UcxFabric(settings, name), options);
  }
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
