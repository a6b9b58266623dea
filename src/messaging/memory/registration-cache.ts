/**
 * The registration cache: memory that was made known to the device stays known, because registering costs more than copying a small message.
 *
 * A whole ArrayBuffer is registered at its first use, so every view of it finds the same entry. The least recently used entries go when there are too
 * many of them or too many bytes, and all that was not used between two looks of a timer go too: a registered buffer is held by the device and could
 * not be garbage-collected otherwise. An entry in use is never dropped.
 */

import type { MemoryRegion, ProtectionDomain } from '../../verbs/index.js';
import { addressOfBuffer } from './native-copy.js';

export interface RegistrationCacheOptions {
  /** Entries at most. Default 256. */
  readonly maxEntries?: number;
  /** Bytes registered at most. Default 1 GiB. */
  readonly maxBytes?: number;
  /** Unused entries go after this time, at the latest after twice of it, milliseconds. Default 2000. */
  readonly idleMs?: number;
}

/** One registered buffer. */
export class Registration {
  readonly cache: RegistrationCache;
  readonly region: MemoryRegion;
  readonly buffer: ArrayBuffer;
  /** Kept until it is forgotten: memory that the context itself allocated. */
  readonly permanent: boolean;
  /** Transfers that use it now. */
  pins = 0;
  /** False once it is deregistered. */
  live = true;
  /** It was used since the timer looked last. */
  used = true;
  /** Of permanent ones: the address in this process, which need not be the one that requests use; else 0. */
  address = 0;

  constructor(cache: RegistrationCache, region: MemoryRegion, buffer: ArrayBuffer, permanent: boolean) {
    this.cache = cache;
    this.region = region;
    this.buffer = buffer;
    this.permanent = permanent;
  }
}

export class RegistrationCache {
  hits = 0;
  misses = 0;
  /** Told of every registration that ends. */
  readonly dropped = new Set<(registration: Registration) => void>();
  readonly #pd: ProtectionDomain;
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #idleMs: number;
  /** Least recently used first. */
  readonly #entries = new Map<ArrayBuffer, Registration>();
  #newest: Registration | undefined;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(pd: ProtectionDomain, options: RegistrationCacheOptions = {}) {
    this.#pd = pd;
    this.#maxEntries = options.maxEntries ?? 256;
    this.#maxBytes = options.maxBytes ?? 2 ** 30;
    this.#idleMs = options.idleMs ?? 2000;
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
    let entry = this.#newest;
    if (entry === undefined || entry.buffer !== buffer) entry = this.#entries.get(buffer);
    if (entry === undefined) {
      this.misses++;
      entry = this.#add(buffer, this.#pd.register(buffer, { remoteRead: true, remoteWrite: true }), false);
      entry.pins++;
      return entry;
    }
    this.use(entry);
    return entry;
  }

  /** Pins a registration that is known and live. */
  use(entry: Registration): void {
    this.hits++;
    entry.pins++;
    entry.used = true;
    if (entry === this.#newest || entry.permanent) return;
    this.#entries.delete(entry.buffer);
    this.#entries.set(entry.buffer, entry);
    this.#newest = entry;
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

  /** Drops what was not used since the last sweep. */
  sweep(): void {
    for (const entry of this.#entries.values()) {
      if (entry.pins > 0 || entry.permanent) continue;
      if (entry.used) entry.used = false;
      else this.#drop(entry);
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const entry of this.#entries.values()) this.#drop(entry);
  }

  #add(buffer: ArrayBuffer, region: MemoryRegion, permanent: boolean): Registration {
    const entry = new Registration(this, region, buffer, permanent);
    this.#entries.set(buffer, entry);
    if (permanent) return entry;
    this.#newest = entry;
    this.#bytes += buffer.byteLength;
    this.#timer ??= setInterval(() => this.sweep(), Math.max(10, this.#idleMs)).unref();
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
    entry.live = false;
    if (this.#newest === entry) this.#newest = undefined;
    this.#entries.delete(entry.buffer);
    if (!entry.permanent) this.#bytes -= entry.buffer.byteLength;
    for (const tell of this.dropped) tell(entry);
    entry.region.deregister();
  }
}
