/**
 * The registration cache: memory that was made known to the device stays known, because registering costs more than copying a small message.
 *
 * A whole ArrayBuffer is registered at its first use, so every view of it finds the same entry. The least recently used entries go when there are too
 * many of them or too many bytes, and all that was not used for a while go by time: a registered buffer is held by the device and could
 * not be garbage-collected otherwise. An entry in use is never dropped.
 */

import type { MemoryRegion, ProtectionDomain } from '../../verbs/index.js';
import { addressOfBuffer } from './native-copy.js';

export interface RegistrationCacheOptions {
  /** Entries at most. Default 256. */
  readonly maxEntries?: number;
  /** Bytes registered at most. Default 1 GiB. */
  readonly maxBytes?: number;
  /** Unused entries go after this time, milliseconds. Default 5000. */
  readonly idleMs?: number;
}

/** One registered buffer. */
export interface Registration {
  readonly region: MemoryRegion;
  readonly buffer: ArrayBuffer;
  /** Transfers that use it now. */
  pins: number;
  /** Kept until it is forgotten: memory that the context itself allocated. */
  readonly permanent: boolean;
  lastUse: number;
  /** Of permanent ones: the address in this process, which need not be the one that requests use; else 0. */
  address: number;
}

export class RegistrationCache {
  hits = 0;
  misses = 0;
  readonly #pd: ProtectionDomain;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #idleMs: number;
  /** Least recently used first. */
  readonly #entries = new Map<ArrayBuffer, Registration>();
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #now: () => number;

  constructor(pd: ProtectionDomain, options: RegistrationCacheOptions = {}, now: () => number = () => performance.now()) {
    this.#pd = pd;
    this.#maxEntries = options.maxEntries ?? 256;
    this.#maxBytes = options.maxBytes ?? 2 ** 30;
    this.#idleMs = options.idleMs ?? 5000;
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The registration of the memory under a view, pinned; `release` it. Throws what `pd.register` throws. */
  acquire(view: Uint8Array): Registration {
    const buffer = view.buffer as ArrayBuffer;
    let entry = this.#entries.get(buffer);
    if (entry === undefined) {
      this.misses++;
      entry = this.#add(buffer, this.#pd.register(buffer, { remoteRead: true, remoteWrite: true }), false);
    } else {
      this.hits++;
      if (!entry.permanent) {
        this.#entries.delete(buffer);
        this.#entries.set(buffer, entry);
      }
    }
    entry.pins++;
    entry.lastUse = this.#now();
    return entry;
  }

  release(entry: Registration): void {
    entry.pins--;
  }

  /** Takes over memory that is registered already. */
  adopt(buffer: ArrayBuffer, region: MemoryRegion): Registration {
    const entry = this.#add(buffer, region, true);
    entry.address = addressOfBuffer(buffer);
    return entry;
  }

  /** Where memory that is registered for good lies in this process; 0 for other memory. */
  permanentAddress(buffer: ArrayBufferLike): number {
    return this.#entries.get(buffer as ArrayBuffer)?.address ?? 0;
  }

  /** Deregisters a buffer now. False when it is in use or unknown. */
  forget(buffer: ArrayBuffer): boolean {
    const entry = this.#entries.get(buffer);
    if (entry === undefined || entry.pins > 0) return false;
    this.#drop(entry);
    return true;
  }

  /** Drops what was not used for `idleMs`. */
  sweep(): void {
    const limit = this.#now() - this.#idleMs;
    for (const entry of this.#entries.values()) {
      if (entry.pins === 0 && !entry.permanent && entry.lastUse <= limit) this.#drop(entry);
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const entry of this.#entries.values()) this.#drop(entry);
  }

  #add(buffer: ArrayBuffer, region: MemoryRegion, permanent: boolean): Registration {
    const entry: Registration = { region, buffer, pins: 0, permanent, lastUse: this.#now(), address: 0 };
    this.#entries.set(buffer, entry);
    if (permanent) return entry;
    this.#bytes += buffer.byteLength;
    this.#timer ??= setInterval(() => this.sweep(), Math.max(50, this.#idleMs / 2)).unref();
    let count = this.#entries.size;
    for (const old of this.#entries.values()) {
      if (count <= this.#maxEntries && this.#bytes <= this.#maxBytes) break;
      if (old === entry || old.pins > 0 || old.permanent) continue;
      this.#drop(old);
      count--;
    }
    return entry;
  }

  #drop(entry: Registration): void {
    this.#entries.delete(entry.buffer);
    if (!entry.permanent) this.#bytes -= entry.buffer.byteLength;
    entry.region.deregister();
  }
}
