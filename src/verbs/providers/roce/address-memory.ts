/**
 * Registered memory as the engine's thread sees it: addresses of this process, moved by native copies. The program's thread has the
 * same memory as ArrayBuffers, which cannot be handed to another thread, but their bytes have an address that both threads can use.
 *
 *     parts of a region:  [ address, length ]...
 *
 * Keys are made by the program's `RegionTable`; this table mirrors it. The engine is one thread, and deregistration is a command that it
 * answers, so when that answer is there nobody touches the memory any more.
 */

import type { Addon } from '../../../native/addon.js';
import { type KeyedRegion, KeyTable, partOf } from '../../transport/key-table.js';
import { AtomicOp, type AtomicResult, type TransportMemory } from '../../transport/memory.js';

/** A region as it is told to the engine. */
export interface RegionRecord extends Omit<KeyedRegion, 'starts'> {
  /** Where the bytes are: pairs of address and length, end to end. */
  readonly parts: readonly number[];
}

type Region = RegionRecord & KeyedRegion;

const REGION_NUMBERS = 6;
const FIRST_REGIONS = 64;

export class AddressTable extends KeyTable<Region> {
  readonly addon: Addon;
  readonly command: Float64Array;
  readonly words: Uint32Array;
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
    super();
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

  override revoke(key: number): boolean {
    if (!super.revoke(key)) return false;
    this.flat.fill(0, REGION_NUMBERS * (key >>> 8), REGION_NUMBERS * ((key >>> 8) + 1));
    return true;
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
