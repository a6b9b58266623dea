/**
 * The devices of a context. With several a worker reaches each peer by the best one that both have: shared memory on the same machine, a network elsewhere;
 * devices of one kind on both sides carry large transfers together (docs/messaging.md).
 */

import type { Device, MapFileOptions } from '../verbs/index.js';
import type { Context, Fabric } from './context.js';
import { MessagingError } from './errors.js';
import type { ContextOptions, WorkerOptions } from './options.js';
import { MOST_RAILS, Rail } from './rail.js';
import { openVerbsWorker, type VerbsWorker } from './verbs-worker.js';

export class VerbsFabric implements Fabric {
  readonly rails: readonly Rail[];
  readonly name: string;
  readonly #ownsDevices: boolean;
  readonly #home: Rail;

  constructor(devices: Device | readonly Device[], options: ContextOptions, ownsDevices: boolean) {
    const list = Array.isArray(devices) ? (devices as readonly Device[]) : [devices as Device];
    if (list.length < 1 || list.length > MOST_RAILS) {
      throw new MessagingError('MSG_INVALID', `a context has 1 to ${MOST_RAILS} devices: got ${list.length}`);
    }
    this.#ownsDevices = ownsDevices;
    this.rails = list.map((device, index) => new Rail(index, device, options.registrations, options.costs));
    this.name = options.name ?? list[0].name;
    this.#home = this.rails.find((rail) => rail.isLocal) ?? this.rails[0];
  }

  /** Throws MSG_UNSUPPORTED for another fabric. */
  static of(fabric: Fabric): VerbsFabric {
    if (fabric instanceof VerbsFabric) return fabric;
    throw new MessagingError(
      'MSG_UNSUPPORTED',
      `the engine '${fabric.provider}' has no verbs devices: open the context with a device`,
    );
  }

  get provider(): string {
    return this.rails[0].device.provider;
  }

  alloc(byteLength: number): Uint8Array {
    const buffer = this.#home.device.alloc(byteLength);
    for (const rail of this.rails) {
      // Only the device that the memory comes from runs atomics on it.
      const remoteAtomic = rail === this.#home;
      rail.registrations.adopt(buffer, rail.pd.register(buffer, { remoteRead: true, remoteWrite: true, remoteAtomic }));
    }
    return new Uint8Array(buffer);
  }

  revoke(memory: Uint8Array): void {
    for (const { registrations } of this.rails) registrations.forget(memory.buffer as ArrayBuffer);
  }

  free(memory: Uint8Array): void {
    this.revoke(memory);
    this.#home.device.free(memory.buffer as ArrayBuffer);
  }

  mapFile(path: string, options: MapFileOptions): Uint8Array {
    return new Uint8Array(this.#home.device.mapFile(path, options));
  }

  openWorker(context: Context, options: WorkerOptions): Promise<VerbsWorker> {
    return openVerbsWorker(context, options);
  }

  close(): void {
    for (const { registrations, device } of this.rails) {
      registrations.close();
      if (this.#ownsDevices) device.close();
    }
  }
}
