/**
 * Registered memory of one device, for providers whose memory is reached through ArrayBuffers.
 *
 * The generation of a key changes when an index is reused, so a revoked key stays revoked for the next 255 registrations of its index. Local and
 * remote key of a region are the same number, as on most hardware. Each protection domain works through its own view.
 */

import { type KeyedRegion, KeyTable, partOf } from './key-table.js';
import { AtomicOp, type AtomicResult, type TransportMemory } from './memory.js';

interface Region extends KeyedRegion {
  readonly parts: readonly Uint8Array[];
}

const PAGE = 4096;
/** Copies below this size run as a loop, because a typed-array view costs more than the copy. */
const LOOP_BYTES = 96;

function copy(from: Uint8Array, at: number, length: number, to: Uint8Array, toAt: number): void {
  if (length < LOOP_BYTES) for (let i = 0; i < length; i++) to[toAt + i] = from[at + i];
  else to.set(from.subarray(at, at + length), toAt);
}

export class RegionTable extends KeyTable<Region> {
  private readonly free: number[] = [];
  private readonly generations: number[] = [0];
  private nextAddress: number;

  /** @param firstAddress where memory begins that has no address of its own. Default 0. */
  constructor(firstAddress = 0) {
    super();
    this.nextAddress = firstAddress;
  }

  /** An address for memory that has none: made of other regions, or simulated. */
  newAddress(length: number): number {
    const address = this.nextAddress;
    this.nextAddress += Math.ceil((length + 1) / PAGE) * PAGE + PAGE;
    return address;
  }

  /** Registers bytes, or parts end to end, under `address` for a protection domain and returns the key. */
  register(domain: number, bytes: Uint8Array | readonly Uint8Array[], address: number, access: number): number {
    const parts = bytes instanceof Uint8Array ? [bytes] : bytes;
    const starts: number[] = [];
    let length = 0;
    for (const part of parts) {
      starts.push(length);
      length += part.length;
    }
    const index = this.free.pop() ?? this.regions.length;
    const generation = ((this.generations[index] ?? 0) + 1) & 255;
    const key = ((index << 8) | generation) >>> 0;
    this.generations[index] = generation;
    this.regions[index] = { key, domain, parts, starts, address, length, access };
    return key;
  }

  override revoke(key: number): boolean {
    const isRevoked = super.revoke(key);
    if (isRevoked) this.free.unshift(key >>> 8);
    return isRevoked;
  }

  /** The memory as one protection domain sees it. */
  view(domain: number): DomainMemory {
    return new DomainMemory(this, domain);
  }
}

/** What the machines of one protection domain work on. */
export class DomainMemory implements TransportMemory {
  private readonly table: RegionTable;
  private readonly domain: number;

  constructor(table: RegionTable, domain: number) {
    this.table = table;
    this.domain = domain;
  }

  check(key: number, address: number, length: number, access: number): boolean {
    return this.table.find(key, this.domain, address, length, access) !== undefined;
  }

  read(key: number, address: number, length: number, into: Uint8Array, at: number): boolean {
    const r = this.table.find(key, this.domain, address, length, 0);
    if (r === undefined) return false;
    if (r.parts.length === 1) copy(r.parts[0], address - r.address, length, into, at);
    else walk(r, address - r.address, length, into, at, false);
    return true;
  }

  write(key: number, address: number, length: number, from: Uint8Array, at: number): boolean {
    const r = this.table.find(key, this.domain, address, length, 0);
    if (r === undefined) return false;
    if (r.parts.length === 1) copy(from, at, length, r.parts[0], address - r.address);
    else walk(r, address - r.address, length, from, at, true);
    return true;
  }

  atomic(
    key: number,
    address: number,
    op: number,
    swapHi: number,
    swapLo: number,
    compareHi: number,
    compareLo: number,
    result: AtomicResult,
  ): boolean {
    const r = this.table.find(key, this.domain, address, 8, 0);
    if (r === undefined) return false;
    const part = partOf(r, address - r.address);
    const b = r.parts[part];
    const i = address - r.address - r.starts[part];
    if (i + 8 > b.length) return false;
    const lo = (b[i] | (b[i + 1] << 8) | (b[i + 2] << 16) | (b[i + 3] << 24)) >>> 0;
    const hi = (b[i + 4] | (b[i + 5] << 8) | (b[i + 6] << 16) | (b[i + 7] << 24)) >>> 0;
    result.hi = hi;
    result.lo = lo;
    if (op === AtomicOp.compareSwap) {
      if (hi === compareHi && lo === compareLo) put64(b, i, swapHi, swapLo);
      return true;
    }
    const sum = lo + swapLo;
    put64(b, i, (hi + swapHi + (sum > 0xffffffff ? 1 : 0)) >>> 0, sum >>> 0);
    return true;
  }

  invalidate(key: number): boolean {
    return this.table.belongs(key, this.domain) && this.table.revoke(key);
  }

  /** The views that make up a range, for building other regions from it; undefined when key, range or right is wrong. */
  views(key: number, address: number, length: number, access: number): Uint8Array[] | undefined {
    const r = this.table.find(key, this.domain, address, length, access);
    if (r === undefined) return undefined;
    const views: Uint8Array[] = [];
    let offset = address - r.address;
    let left = length;
    for (let i = partOf(r, offset); left > 0; i++) {
      const from = offset - r.starts[i];
      const n = Math.min(left, r.parts[i].length - from);
      if (n > 0) views.push(r.parts[i].subarray(from, from + n));
      offset += n;
      left -= n;
    }
    return views;
  }
}

function walk(r: Region, offset: number, length: number, bytes: Uint8Array, at: number, isWrite: boolean): void {
  let position = at;
  let left = length;
  let from = offset;
  for (let i = partOf(r, offset); left > 0; i++) {
    const inPart = from - r.starts[i];
    const n = Math.min(left, r.parts[i].length - inPart);
    if (isWrite) copy(bytes, position, n, r.parts[i], inPart);
    else copy(r.parts[i], inPart, n, bytes, position);
    position += n;
    from += n;
    left -= n;
  }
}

function put64(b: Uint8Array, at: number, hi: number, lo: number): void {
  for (let i = 0; i < 4; i++) {
    b[at + i] = lo >>> (8 * i);
    b[at + 4 + i] = hi >>> (8 * i);
  }
}
