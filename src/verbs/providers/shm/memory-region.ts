/**
 * A registered region of this context: its entry in the table that initiators check, and the views that local copies use.
 */

import { VerbsError } from '../../errors.js';
import type { MemoryKind } from '../../memory-region.js';
import { RegisteredRegion } from '../registered-region.js';
import type { Block } from './arena.js';
import type { ShmDevice } from './device.js';
import {
  H_INITIATOR_HIGH,
  IN_ANNOUNCE,
  IN_ANNOUNCE_TRANSFER,
  IN_PID,
  IN_START_F64,
  IN_STATE,
  INITIATOR_WORDS,
  INITIATORS,
  MR_ACCESS,
  MR_ADDRESS_F64,
  MR_KIND,
  MR_LENGTH_F64,
  MR_OFFSET_F64,
  MR_PARTS,
  MR_PD,
  MR_SEGMENT,
  MR_SERIAL,
  REGION_WORDS,
  REGIONS,
} from './layout.js';
import type { Run } from './peer.js';
import type { ShmProtectionDomain } from './protection-domain.js';

/** How long deregistration waits for an initiator in the middle of a copy. */
const LET_GO_MS = 1000;

/** What the table of regions says of one. */
export interface RegionEntry {
  readonly kind: number;
  readonly address: number;
  readonly length: number;
  readonly segmentIndex: number;
  readonly offset: number;
  readonly parts: number;
}

/** What an indexed or strided region is made of: its runs, the region of each, and where peers read the list. */
export interface RegionParts {
  readonly runs: readonly Run[];
  readonly bases: readonly ShmMemoryRegion[];
  readonly descriptor: Block;
}

/** Contiguous bytes of ordinary memory. */
export interface Span {
  readonly region: ShmMemoryRegion;
  readonly offset: number;
  readonly length: number;
}

export class ShmMemoryRegion extends RegisteredRegion {
  readonly lkey: number;
  readonly rkey: number;
  readonly pd: ShmProtectionDomain;
  /** The whole buffer as bytes and as words, and where the region starts in it. */
  readonly u8: Uint8Array;
  readonly i32: Int32Array;
  readonly start: number;
  readonly index: number;
  readonly serial: number;
  /** Indexed and strided regions made of this one; it cannot go before them. */
  dependants = 0;
  /** False once the keys are revoked. */
  live = true;
  readonly #device: ShmDevice;
  readonly #parts: RegionParts | undefined;
  #released = false;

  constructor(
    pd: ShmProtectionDomain,
    kind: MemoryKind,
    access: number,
    bytes: Uint8Array,
    entry: RegionEntry,
    parts?: RegionParts,
  ) {
    super(kind, access, bytes, entry.address, entry.length);
    const device = pd.device;
    this.#device = device;
    this.#parts = parts;
    this.pd = pd;
    this.start = bytes.byteOffset;
    this.u8 = new Uint8Array(bytes.buffer);
    this.i32 = new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >> 2);
    this.index = device.regionPool.take();
    this.serial = device.control.nextSerial();
    this.lkey = ((this.index << 8) | (this.serial & 0xff)) >>> 0;
    this.rkey = this.lkey;
    const { i32, f64 } = device;
    const at = REGIONS + this.index * REGION_WORDS;
    i32[at + MR_ACCESS] = access;
    i32[at + MR_PD] = pd.number;
    i32[at + MR_KIND] = entry.kind;
    f64[(at >> 1) + MR_ADDRESS_F64] = entry.address;
    f64[(at >> 1) + MR_LENGTH_F64] = entry.length;
    i32[at + MR_SEGMENT] = entry.segmentIndex;
    f64[(at >> 1) + MR_OFFSET_F64] = entry.offset;
    i32[at + MR_PARTS] = entry.parts;
    Atomics.store(i32, at + MR_SERIAL, this.serial);
    device.regions.set(this.index, this);
    for (const base of parts?.bases ?? []) base.dependants++;
    pd.adopt(this);
  }

  /** The contiguous pieces of a range: itself, or the blocks of an indexed or strided region. */
  spans(offset: number, length: number): Span[] {
    if (!this.#parts) return [{ region: this, offset, length }];
    const spans: Span[] = [];
    let skip = offset;
    let left = length;
    this.#parts.runs.forEach((run, r) => {
      const base = (this.#parts as RegionParts).bases[r];
      for (let block = 0; block < run.count && left > 0; block++) {
        if (skip >= run.blockLength) {
          skip -= run.blockLength;
          continue;
        }
        const n = Math.min(left, run.blockLength - skip);
        spans.push({ region: base, offset: run.address - base.addr + block * run.stride + skip, length: n });
        left -= n;
        skip = 0;
      }
    });
    return spans;
  }

  deregister(): void {
    if (this.#released) return;
    if (this.dependants > 0) {
      throw new VerbsError('VERBS_BUSY', 'an indexed or strided region is made of this one: deregister that first');
    }
    const { i32 } = this.#device;
    this.live = false;
    Atomics.store(i32, REGIONS + this.index * REGION_WORDS + MR_SERIAL, 0);
    this.#device.barrier();
    this.#device.distrust(this);
    this.#device.finishTransfers();
    this.#waitForInitiators();
    this.#released = true;
    this.#device.regions.delete(this.index);
    this.#device.regionPool.give(this.index);
    if (this.#parts) {
      for (const base of this.#parts.bases) base.dependants--;
      this.#device.arena.give(this.#parts.descriptor);
    }
    this.pd.release(this);
  }

  /** Nobody can start to use the key any more; who was in the middle announced it, and is waited for. */
  #waitForInitiators(): void {
    const device = this.#device;
    const { i32, f64 } = device;
    const announced = this.index + 1;
    const count = Atomics.load(i32, H_INITIATOR_HIGH);
    for (let n = 0; n < count; n++) {
      const at = INITIATORS + n * INITIATOR_WORDS;
      const isUsing = () =>
        Atomics.load(i32, at + IN_ANNOUNCE) === announced || Atomics.load(i32, at + IN_ANNOUNCE_TRANSFER) === announced;
      if (!isUsing()) continue;
      const deadline = performance.now() + LET_GO_MS;
      for (let round = 0; isUsing(); round++) {
        if (round % 256 !== 255) continue;
        const isGone = device.door.addon.isGone(i32[at + IN_PID], f64[(at >> 1) + IN_START_F64]);
        if (Atomics.load(i32, at + IN_STATE) !== 2 || isGone) break;
        if (performance.now() > deadline) {
          throw new VerbsError(
            'VERBS_BUSY',
            `process ${i32[at + IN_PID]} is stopped in the middle of a copy under this key: the key is revoked, but the memory must be kept until it goes on or ends; call deregister again then`,
          );
        }
      }
    }
  }
}
