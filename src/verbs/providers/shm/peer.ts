/**
 * Another context (or this one itself) as seen by an initiator: its control segment mapped, its regions resolved and cached.
 *
 * Opened from a GID through /proc, so nothing on the way has a name and a process of another user is refused by the kernel and by us.
 */

import { closeSync, constants, fstatSync, openSync, readlinkSync, statSync } from 'node:fs';
import type { Door } from '../../../native/door.js';
import { VerbsError } from '../../errors.js';
import { parseGid } from '../../ip-address.js';
import { type ContextId, contextIdOf } from './control.js';
import {
  CONTROL_BYTES,
  CONTROL_NAME,
  H_BELL,
  H_ID_HI,
  H_ID_LO,
  H_INITIATOR_HIGH,
  H_MAGIC,
  H_START_F64,
  H_STATE,
  H_VERSION,
  IN_ANNOUNCE,
  IN_ANNOUNCE_TRANSFER,
  IN_ID_HI,
  IN_ID_LO,
  IN_PID,
  IN_START_F64,
  IN_STATE,
  INITIATOR_MAX,
  INITIATOR_WORDS,
  INITIATORS,
  KIND_MAPPED,
  KIND_PRIVATE,
  MAGIC,
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
  RUN_F64,
  SEG_FD,
  SEG_SERIAL,
  SEG_SIZE_F64,
  SEG_WRITABLE,
  SEGMENT_WORDS,
  SEGMENTS,
  STATE_LIVE,
  VERSION,
} from './layout.js';
import { Segment } from './segment.js';

/** Blocks of equal length at equal distances, of one region: what an indexed or strided region is made of. */
export interface Run {
  readonly key: number;
  readonly address: number;
  readonly blockLength: number;
  readonly stride: number;
  readonly count: number;
}

/** A region of a peer, resolved. Valid as long as the word at `entry` equals `serial`. */
export class RemoteRef {
  readonly index: number;
  readonly serial: number;
  readonly entry: number;
  readonly access: number;
  readonly pd: number;
  readonly kind: number;
  readonly address: number;
  readonly length: number;
  /** Address here of the region's first byte, or 0 where the bytes must be reached through the kernel. */
  readonly base: number;
  readonly writable: boolean;
  /** For mapped memory: the segment's arrays, and the region's offset in them. */
  readonly i32: Int32Array;
  readonly u8: Uint8Array;
  readonly offset: number;
  readonly runs: readonly Run[];

  constructor(
    index: number,
    serial: number,
    fields: { access: number; pd: number; kind: number; address: number; length: number; runs?: readonly Run[] },
    segment: Segment | undefined,
    offset: number,
    base: number,
  ) {
    this.index = index;
    this.serial = serial;
    this.entry = REGIONS + index * REGION_WORDS;
    this.access = fields.access;
    this.pd = fields.pd;
    this.kind = fields.kind;
    this.address = fields.address;
    this.length = fields.length;
    this.base = base;
    this.writable = segment ? segment.writable : true;
    this.i32 = segment ? segment.i32 : NO_WORDS;
    this.u8 = segment ? segment.u8 : NO_BYTES;
    this.offset = offset;
    this.runs = fields.runs ?? [];
  }
}

const NO_WORDS = new Int32Array(0);
const NO_BYTES = new Uint8Array(0);

interface CachedSegment {
  readonly serial: number;
  readonly segment: Segment;
}

export class Peer {
  readonly gid: string;
  readonly gidBytes: Uint8Array;
  readonly id: ContextId;
  readonly pid: number;
  readonly startTime: number;
  readonly control: Segment;
  readonly i32: Int32Array;
  readonly f64: Float64Array;
  /** The same process: its private memory is ours too. */
  readonly sameProcess: boolean;
  /** This process takes part in asymmetric barriers. */
  readonly asymmetric: boolean;
  /** Descriptor that rings the peer's bell. */
  readonly bell: number;
  /** This context's entry in the peer's table of initiators: word index, and index + 1. */
  slot = -1;
  owner = 0;
  /** Set once it is known to be gone. */
  dead = false;
  stopped = false;
  /** Bookkeeping of the device: handle of the watch, word it reports to, users. */
  watchHandle = -1;
  watchWord = -1;
  users = 0;
  readonly #door: Door;
  readonly #own: boolean;
  readonly #segments = new Map<number, CachedSegment>();
  readonly #regions = new Map<number, RemoteRef>();
  readonly #ownSegment: (index: number) => Segment | undefined;

  /** @param ownSegment set for this context itself: nothing is mapped twice. */
  constructor(
    door: Door,
    gid: string,
    id: ContextId,
    control: Segment,
    bell: number,
    ownSegment?: (index: number) => Segment | undefined,
  ) {
    this.#door = door;
    this.#own = ownSegment !== undefined;
    this.#ownSegment = ownSegment ?? (() => undefined);
    this.gid = gid;
    this.gidBytes = parseGid(gid) as Uint8Array;
    this.id = id;
    this.pid = id.pid;
    this.control = control;
    this.i32 = control.i32;
    this.f64 = control.f64;
    this.startTime = control.f64[H_START_F64];
    this.sameProcess = id.pid === process.pid;
    this.bell = bell;
    this.asymmetric = door.asymmetric;
  }

  /** How messages name it. */
  get name(): string {
    return this.sameProcess ? 'this process' : `process ${this.pid}`;
  }

  /** Takes an entry in the peer's table of initiators. Throws VERBS_NO_MEMORY when 4,094 contexts are there already. */
  enlist(own: ContextId, startTime: number): void {
    if (this.slot >= 0) return;
    const { i32, f64 } = this;
    for (let index = 0; index < INITIATOR_MAX; index++) {
      const at = INITIATORS + index * INITIATOR_WORDS;
      if (Atomics.load(i32, at + IN_STATE) !== 0 && !this.#deserted(at)) continue;
      const before = Atomics.load(i32, at + IN_STATE);
      if (Atomics.compareExchange(i32, at + IN_STATE, before, 1) !== before) continue;
      i32[at + IN_PID] = own.pid;
      i32[at + IN_ID_LO] = own.idLo;
      i32[at + IN_ID_HI] = own.idHi;
      f64[(at >> 1) + IN_START_F64] = startTime;
      Atomics.store(i32, at + IN_ANNOUNCE, 0);
      Atomics.store(i32, at + IN_ANNOUNCE_TRANSFER, 0);
      Atomics.store(i32, at + IN_STATE, 2);
      for (;;) {
        const high = Atomics.load(i32, H_INITIATOR_HIGH);
        if (high > index || Atomics.compareExchange(i32, H_INITIATOR_HIGH, high, index + 1) === high) break;
      }
      this.slot = at;
      this.owner = index + 1;
      return;
    }
    throw new VerbsError('VERBS_NO_MEMORY', `${this.name} is used by ${INITIATOR_MAX} contexts already: close some`);
  }

  /** An entry whose owner is dead may be taken over. */
  #deserted(at: number): boolean {
    if (Atomics.load(this.i32, at + IN_STATE) !== 2) return false;
    return this.#door.addon.isGone(this.i32[at + IN_PID], this.f64[(at >> 1) + IN_START_F64]) !== 0;
  }

  /** Gives the entry back. */
  withdraw(): void {
    if (this.slot < 0) return;
    Atomics.store(this.i32, this.slot + IN_STATE, 0);
    this.slot = -1;
    this.owner = 0;
  }

  /** The region behind a key, or undefined when the key is wrong or revoked. Throws nothing. */
  resolve(key: number): RemoteRef | undefined {
    const index = key >>> 8;
    const entry = REGIONS + index * REGION_WORDS;
    if (index >= 65536) return undefined;
    const { i32, f64 } = this;
    const serial = Atomics.load(i32, entry + MR_SERIAL);
    if (serial === 0 || (serial & 0xff) !== (key & 0xff)) return undefined;
    const cached = this.#regions.get(index);
    if (cached && cached.serial === serial) return cached;
    const at = entry >> 1;
    const kind = i32[entry + MR_KIND];
    const fields = {
      access: i32[entry + MR_ACCESS],
      pd: i32[entry + MR_PD],
      kind,
      address: f64[at + MR_ADDRESS_F64],
      length: f64[at + MR_LENGTH_F64],
    };
    const segmentIndex = i32[entry + MR_SEGMENT];
    const offset = f64[at + MR_OFFSET_F64];
    const parts = i32[entry + MR_PARTS];
    if (Atomics.load(i32, entry + MR_SERIAL) !== serial) return undefined;
    let ref: RemoteRef;
    if (kind === KIND_PRIVATE) {
      ref = new RemoteRef(index, serial, fields, undefined, 0, this.sameProcess ? fields.address : 0);
    } else {
      const segment = this.segment(segmentIndex);
      if (!segment) return undefined;
      if (kind === KIND_MAPPED) {
        ref = new RemoteRef(index, serial, fields, segment, offset, segment.address + offset);
      } else {
        const runs: Run[] = [];
        for (let i = 0; i < parts; i++) {
          const f = offset / 8 + i * RUN_F64;
          const [k, address, blockLength, stride, count] = segment.f64.subarray(f, f + RUN_F64);
          runs.push({ key: k, address, blockLength, stride, count });
        }
        ref = new RemoteRef(index, serial, { ...fields, runs }, undefined, 0, 0);
      }
    }
    this.#regions.set(index, ref);
    return ref;
  }

  /** A segment of the peer, mapped; undefined when it is gone. */
  segment(index: number): Segment | undefined {
    if (this.#own) return this.#ownSegment(index);
    const at = SEGMENTS + index * SEGMENT_WORDS;
    const fd = Atomics.load(this.i32, at + SEG_FD) - 1;
    const serial = this.i32[at + SEG_SERIAL];
    const cached = this.#segments.get(index);
    if (cached && cached.serial === serial) return cached.segment;
    if (fd < 0) return undefined;
    const size = this.f64[(at >> 1) + SEG_SIZE_F64];
    const writable = this.i32[at + SEG_WRITABLE] === 1;
    let handle: number;
    try {
      handle = openSync(`/proc/${this.pid}/fd/${fd}`, writable ? 'r+' : 'r');
    } catch {
      return undefined;
    }
    try {
      if (Atomics.load(this.i32, at + SEG_FD) - 1 !== fd || this.i32[at + SEG_SERIAL] !== serial) return undefined;
      if (fstatSync(handle).size < size) return undefined;
      const segment = new Segment(this.#door, handle, 0, size, writable, false);
      cached?.segment.close(this.#door);
      this.#segments.set(index, { serial, segment });
      return segment;
    } finally {
      closeSync(handle);
    }
  }

  /** Lets go of everything mapped. */
  close(): void {
    if (this.#own) return;
    this.withdraw();
    for (const { segment } of this.#segments.values()) segment.close(this.#door);
    this.#segments.clear();
    this.#regions.clear();
    this.control.close(this.#door);
    if (!this.#own) closeSync(this.bell);
  }
}

/** Maps the context behind a GID. Throws VERBS_INVALID, VERBS_PEER_LOST when it is gone, VERBS_REFUSED for another user's process. */
export function openPeer(door: Door, gid: string): Peer {
  const id = contextIdOf(gid);
  const lost = () =>
    new VerbsError(
      'VERBS_PEER_LOST',
      `process ${id.pid} is not there any more, or is in another pid namespace: is the peer still running?`,
    );
  let uid: number;
  try {
    uid = statSync(`/proc/${id.pid}`).uid;
  } catch {
    throw lost();
  }
  const self = process.geteuid?.() ?? uid;
  const refused = () =>
    new VerbsError(
      'VERBS_REFUSED',
      `process ${id.pid} belongs to user ${uid}, this one to user ${self}: both must run as the same user`,
    );
  if (uid !== self) throw refused();
  let handle = -1;
  let bell = -1;
  try {
    const path = `/proc/${id.pid}/fd/${id.fd}`;
    if (!readlinkSync(path).startsWith(`/memfd:${CONTROL_NAME}`)) throw lost(); // the number was reused for another file
    handle = openSync(path, 'r+');
    if (fstatSync(handle).size < CONTROL_BYTES) throw lost();
    const control = new Segment(door, handle, 0, CONTROL_BYTES, true, false);
    const { i32 } = control;
    const fits = i32[H_MAGIC] === MAGIC && i32[H_ID_LO] === id.idLo && i32[H_ID_HI] === id.idHi;
    if (!fits || i32[H_STATE] !== STATE_LIVE) {
      control.close(door);
      throw lost();
    }
    if (i32[H_VERSION] !== VERSION) {
      const theirs = i32[H_VERSION];
      control.close(door);
      throw new VerbsError(
        'VERBS_REFUSED',
        `process ${id.pid} uses layout ${theirs}, this one ${VERSION}: run the same version of verbena on both sides`,
      );
    }
    bell = openSync(`/proc/${id.pid}/fd/${i32[H_BELL]}`, constants.O_WRONLY | constants.O_NONBLOCK);
    return new Peer(door, gid, id, control, bell);
  } catch (error) {
    if (VerbsError.is(error)) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EACCES' || code === 'EPERM') throw refused();
    throw lost();
  } finally {
    if (handle >= 0) closeSync(handle);
  }
}
