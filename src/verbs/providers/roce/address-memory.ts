/**
 * Registered memory as the engine's thread sees it: addresses of this process, moved by native copies. The program's thread has the
 * same memory as ArrayBuffers, which cannot be handed to another thread, but their bytes have an address that both threads can use.
 *
 *     key ──> regions[key >>> 8] = { key, domain, access, address, length, parts: [ address, length ]... }
 *
 * Keys are made by the program's `RegionTable`; this table mirrors it. The engine is one thread, and deregistration is a command that it
 * answers, so when that answer is there nobody touches the memory any more.
 */

import type { Addon } from '../../../native/addon.js';
import { AtomicOp, type AtomicResult, type TransportMemory } from '../../transport/memory.js';

/** A region as it is told to the engine. */
export interface RegionRecord {
  readonly key: number;
  readonly domain: number;
  /** Bits of access.ts. */
  readonly access: number;
  /** Address that requests use. */
  readonly address: number;
  readonly length: number;
  /** Where the bytes are: pairs of address and length, end to end. */
  readonly parts: readonly number[];
}

interface Region extends RegionRecord {
  /** Offset in the region of each part. */
  readonly starts: readonly number[];
}

const REGION_NUMBERS = 6;
const FIRST_REGIONS = 64;

/** The part that holds byte `offset` of a region. */
function partOf(r: Region, offset: number): number {
  let low = 0;
  let high = r.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (r.starts[middle] <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

export class AddressTable {
  readonly addon: Addon;
  readonly command: Float64Array;
  readonly words: Uint32Array;
  private readonly regions: (Region | undefined)[] = [];
  /** The regions that are in one piece, as native/rc-fast.h draws them. */
  private flat = new Float64Array(REGION_NUMBERS * FIRST_REGIONS);
  private readonly addresses = new WeakMap<ArrayBufferLike, number>();
  private lastBuffer: ArrayBufferLike | undefined;
  private lastAddress = 0;
  /** Keys that a peer has revoked. */
  onInvalidate: (key: number) => void = () => {};
  /** Where the regions are now, for native/rc-fast.h. */
  onMove: (regions: Float64Array, count: number) => void = () => {};

  constructor(addon: Addon, block: ArrayBuffer) {
    this.addon = addon;
    this.command = new Float64Array(block);
    this.words = new Uint32Array(block);
  }

  register(record: RegionRecord): void {
    const starts: number[] = [];
    let length = 0;
    for (let i = 1; i < record.parts.length; i += 2) {
      starts.push(length);
      length += record.parts[i];
    }
    this.regions[record.key >>> 8] = { ...record, starts };
    const { key, domain, access, address, parts } = record;
    const at = REGION_NUMBERS * (key >>> 8);
    if (at >= this.flat.length) this.grow(2 * at);
    this.flat.set([key, domain, access, address, length, parts.length === 2 ? parts[0] : 0], at);
  }

  private grow(numbers: number): void {
    const grown = new Float64Array(numbers);
    grown.set(this.flat);
    this.flat = grown;
    this.tellPlace();
  }

  tellPlace(): void {
    this.onMove(this.flat, this.flat.length / REGION_NUMBERS);
  }

  clear(): void {
    this.regions.length = 0;
    this.flat.fill(0);
  }

  belongs(key: number, domain: number): boolean {
    const r = this.regions[key >>> 8];
    return r !== undefined && r.key === key && r.domain === domain;
  }

  revoke(key: number): boolean {
    if (this.regions[key >>> 8]?.key !== key) return false;
    this.regions[key >>> 8] = undefined;
    this.flat.fill(0, REGION_NUMBERS * (key >>> 8), REGION_NUMBERS * ((key >>> 8) + 1));
    return true;
  }

  find(key: number, domain: number, address: number, length: number, access: number): Region | undefined {
    const r = this.regions[key >>> 8];
    if (r === undefined || r.key !== key || r.domain !== domain || (r.access & access) !== access) return undefined;
    return address >= r.address && address + length <= r.address + r.length ? r : undefined;
  }

  /** Address of the first byte of an array. The last buffer asked for is remembered: nearly always it is the batch of packets. */
  addressOf(bytes: Uint8Array): number {
    const { buffer } = bytes;
    if (buffer !== this.lastBuffer) {
      let known = this.addresses.get(buffer);
      if (known === undefined) {
        known = this.addon.addressOf(buffer as ArrayBuffer);
        this.addresses.set(buffer, known);
      }
      this.lastBuffer = buffer;
      this.lastAddress = known;
    }
    return this.lastAddress + bytes.byteOffset;
  }

  copy(to: number, from: number, length: number): void {
    const { command } = this;
    command[0] = to;
    command[1] = from;
    command[2] = length;
    this.addon.copy();
  }

  view(domain: number): AddressMemory {
    return new AddressMemory(this, domain);
  }
}

/** What the machines of one protection domain work on. */
export class AddressMemory implements TransportMemory {
  private readonly table: AddressTable;
  private readonly domain: number;

  constructor(table: AddressTable, domain: number) {
    this.table = table;
    this.domain = domain;
  }

  check(key: number, address: number, length: number, access: number): boolean {
    return this.table.find(key, this.domain, address, length, access) !== undefined;
  }

  read(key: number, address: number, length: number, into: Uint8Array, at: number): boolean {
    return this.move(key, address, length, into, at, false);
  }

  write(key: number, address: number, length: number, from: Uint8Array, at: number): boolean {
    return this.move(key, address, length, from, at, true);
  }

  private move(key: number, address: number, length: number, bytes: Uint8Array, at: number, isWrite: boolean): boolean {
    const { table } = this;
    const r = table.find(key, this.domain, address, length, 0);
    if (r === undefined) return false;
    const { parts, starts } = r;
    let offset = address - r.address;
    let packet = table.addressOf(bytes) + at;
    let left = length;
    for (let i = parts.length > 2 ? partOf(r, offset) : 0; left > 0; i++) {
      const inPart = offset - starts[i];
      const n = Math.min(left, parts[2 * i + 1] - inPart);
      if (isWrite) table.copy(parts[2 * i] + inPart, packet, n);
      else table.copy(packet, parts[2 * i] + inPart, n);
      offset += n;
      packet += n;
      left -= n;
    }
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
    const { table } = this;
    const r = table.find(key, this.domain, address, 8, 0);
    if (r === undefined) return false;
    const part = partOf(r, address - r.address);
    const offset = address - r.address - r.starts[part];
    const at = r.parts[2 * part] + offset;
    if (offset + 8 > r.parts[2 * part + 1] || at % 8 !== 0) return false;
    const { command, words } = table;
    command[0] = at;
    if (op === AtomicOp.compareSwap) {
      words[10] = compareLo;
      words[11] = compareHi;
      words[14] = swapLo;
      words[15] = swapHi;
      table.addon.compareSwap();
    } else {
      words[10] = swapLo;
      words[11] = swapHi;
      table.addon.fetchAdd();
    }
    result.lo = words[12];
    result.hi = words[13];
    return true;
  }

  invalidate(key: number): boolean {
    const { table } = this;
    if (!table.belongs(key, this.domain) || !table.revoke(key)) return false;
    table.onInvalidate(key);
    return true;
  }
}
