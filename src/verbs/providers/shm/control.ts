/**
 * The control segment of one's own context: makes it, fills the header, hands out entries of its tables.
 */

import { randomBytes } from 'node:crypto';
import type { Door } from '../../../native/door.js';
import { VerbsError } from '../../errors.js';
import {
  CONTROL_BYTES,
  CONTROL_NAME,
  H_BARRIER,
  H_CONTROL_FD,
  H_ID_HI,
  H_ID_LO,
  H_MAGIC,
  H_NAME_LENGTH,
  H_PID,
  H_SEGMENT_BYTES_F64,
  H_START_F64,
  H_STATE,
  H_THREAD,
  H_UID,
  H_VERSION,
  MAGIC,
  NAME_BYTE,
  NAME_MAX,
  SEG_ADDRESS_F64,
  SEG_FD,
  SEG_SERIAL,
  SEG_SIZE_F64,
  SEG_WRITABLE,
  SEGMENT_MAX,
  SEGMENT_WORDS,
  SEGMENTS,
  STATE_ENDED,
  STATE_LIVE,
  VERSION,
} from './layout.js';
import { createSegment, type Segment } from './segment.js';

const RESTING = 512;

/**
 * Free entries of a table. Numbers are reused late, so that a stale address meets nobody, but not so late that the whole table gets touched: once
 * RESTING entries rest, the one given back longest ago is next.
 */
export class IndexPool {
  readonly #limit: number;
  readonly #what: string;
  #next: number;
  readonly #free: number[] = [];

  /** @param first the lowest index; those below are reserved. */
  constructor(limit: number, what: string, first = 0) {
    this.#limit = limit;
    this.#what = what;
    this.#next = first;
  }

  /** Throws VERBS_NO_MEMORY when the table is full. */
  take(): number {
    if (this.#next < this.#limit && this.#free.length <= RESTING) return this.#next++;
    const index = this.#free.shift();
    if (index === undefined)
      throw new VerbsError('VERBS_NO_MEMORY', `all ${this.#what} of this device (${this.#limit}) are in use: close some`);
    return index;
  }

  give(index: number): void {
    this.#free.push(index);
  }

  /** One more than the highest index ever handed out. */
  get high(): number {
    return this.#next;
  }
}

/** A GID holds what a peer needs to find the segment: fe80 : fd(16) : pid(32) : id(64). */
export interface ContextId {
  readonly pid: number;
  readonly fd: number;
  readonly idLo: number;
  readonly idHi: number;
}

const half = (value: number) => value.toString(16);

/** Text form of a GID. */
export function formatGid(id: ContextId): string {
  const groups = [
    0xfe80,
    id.fd & 0xffff,
    (id.pid >>> 16) & 0xffff,
    id.pid & 0xffff,
    (id.idHi >>> 16) & 0xffff,
    id.idHi & 0xffff,
    (id.idLo >>> 16) & 0xffff,
    id.idLo & 0xffff,
  ];
  return groups.map(half).join(':');
}

/** The parts of a GID of this provider. Throws VERBS_INVALID for anything else. */
export function contextIdOf(gid: string): ContextId {
  const groups = gid.split(':').map((g) => Number.parseInt(g, 16));
  if (groups.length !== 8 || groups.some((g) => !(g >= 0 && g <= 0xffff)) || groups[0] !== 0xfe80) {
    throw new VerbsError('VERBS_INVALID', `'${gid}' is not a GID of the shm provider: take it from device.gid or qp.address()`);
  }
  return {
    fd: groups[1],
    pid: (groups[2] << 16) | groups[3],
    idHi: (groups[4] << 16) | groups[5],
    idLo: (groups[6] << 16) | groups[7],
  };
}

export class Control {
  readonly segment: Segment;
  readonly id: ContextId;
  readonly gid: string;
  readonly startTime: number;
  /** This context's own segments by number. */
  readonly segments = new Map<number, Segment>();
  readonly #pool = new IndexPool(SEGMENT_MAX, 'memory segments');
  #serial = 0;

  constructor(door: Door, name: string) {
    const stat = door.addon.processStat(process.pid);
    if (!stat)
      throw new VerbsError(
        'VERBS_SYSTEM',
        'cannot read /proc/self/stat: is /proc mounted? Or may this process not open more files (EMFILE): close some, or raise ulimit -n',
      );
    const segment = createSegment(door, CONTROL_NAME, CONTROL_BYTES, { onDemand: true });
    if (segment.fd > 0xffff) {
      segment.close(door);
      throw new VerbsError('VERBS_SYSTEM', 'this process has more than 65,536 open files: a device must be opened before that');
    }
    const random = new Int32Array(new Uint8Array(randomBytes(8)).buffer);
    this.segment = segment;
    this.startTime = stat[0];
    this.id = { pid: process.pid, fd: segment.fd, idLo: random[0], idHi: random[1] };
    this.gid = formatGid(this.id);
    const { i32, f64, u8 } = segment;
    i32[H_VERSION] = VERSION;
    i32[H_PID] = process.pid;
    i32[H_UID] = process.geteuid?.() ?? 0;
    i32[H_THREAD] = door.addon.threadId();
    i32[H_CONTROL_FD] = segment.fd;
    f64[H_START_F64] = this.startTime;
    i32[H_ID_LO] = this.id.idLo;
    i32[H_ID_HI] = this.id.idHi;
    const written = new TextEncoder().encodeInto(name, u8.subarray(NAME_BYTE, NAME_BYTE + NAME_MAX)).written;
    i32[H_NAME_LENGTH] = written;
    i32[H_BARRIER] = door.asymmetric ? 1 : 0;
    i32[H_STATE] = STATE_LIVE;
    Atomics.store(i32, H_MAGIC, MAGIC);
  }

  /** A number that no other region or segment of this context has had; never 0. */
  nextSerial(): number {
    this.#serial = (this.#serial + 1) | 0;
    if (this.#serial === 0) this.#serial = 1;
    return this.#serial;
  }

  /** Lists a segment for peers; returns its number. */
  addSegment(segment: Segment): number {
    const index = this.#pool.take();
    this.segments.set(index, segment);
    const { i32, f64 } = this.segment;
    const at = SEGMENTS + index * SEGMENT_WORDS;
    i32[at + SEG_WRITABLE] = segment.writable ? 1 : 0;
    f64[(at >> 1) + SEG_SIZE_F64] = segment.length;
    f64[(at >> 1) + SEG_ADDRESS_F64] = segment.address;
    i32[at + SEG_SERIAL] = this.nextSerial();
    f64[H_SEGMENT_BYTES_F64] += segment.length;
    Atomics.store(i32, at + SEG_FD, segment.fd + 1);
    return index;
  }

  removeSegment(index: number): void {
    const at = SEGMENTS + index * SEGMENT_WORDS;
    Atomics.store(this.segment.i32, at + SEG_FD, 0);
    this.segment.f64[H_SEGMENT_BYTES_F64] -= this.segment.f64[(at >> 1) + SEG_SIZE_F64];
    this.segments.delete(index);
    this.#pool.give(index);
  }

  close(door: Door): void {
    Atomics.store(this.segment.i32, H_STATE, STATE_ENDED);
    this.segment.close(door);
  }
}
