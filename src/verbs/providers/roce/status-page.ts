/**
 * A page of shared memory in which a RoCE device shows what it counts, so that `verbena top` and `verbena doctor` see it from outside, even while
 * the program is blocked. Both threads that may run the data path write their own counters; a reader adds them.
 *
 *     numbers of 8 bytes:  [ MAGIC | PID | QPS | NAME_LENGTH | WHERE_LENGTH | ... | name (128 bytes) | where (64 bytes) | engine's | program's ]
 *
 * It is a memfd: nothing has a name in a file system, and nothing is left when the process goes.
 */

import { closeSync, openSync, readdirSync, readlinkSync, readSync } from 'node:fs';
import type { Door } from '../../../native/door.js';
import { createSegment, type Segment } from '../shm/segment.js';
import { RoceCounters } from './counters.js';

const SEGMENT_NAME = 'verbena-roce-status';
const PAGE = 4096;
const MAGIC_VALUE = 0x76_72_63_31;
const MAGIC = 0;
const PID = 1;
const QPS = 2;
const NAME_LENGTH = 3;
const WHERE_LENGTH = 4;
const NAME_AT = 8;
const NAME_BYTES = 128;
const WHERE_AT = NAME_AT + NAME_BYTES / 8;
const WHERE_BYTES = 64;
const COUNTERS_AT = 64;
/** Room for the counters of one thread. */
const SHARE = 64;

type CounterName = keyof RoceCounters;
const NAMES = Object.keys(new RoceCounters()) as CounterName[];

/** How often a thread shows its counters, nanoseconds. */
export const SHOW_EVERY_NS = 100e6;

/** Who writes a part of the page. */
export const Share = { engine: 0, program: 1 } as const;

/** The numbers of some counters, in the order of the page. */
export function countersAsNumbers(counters: RoceCounters, into: Float64Array): Float64Array {
  for (let i = 0; i < NAMES.length; i++) into[i] = counters[NAMES[i]];
  return into;
}

/** Where a share begins, bytes from the start of the page. */
export function shareOffset(share: number): number {
  return 8 * (COUNTERS_AT + share * SHARE);
}

export const SHARE_NUMBERS = NAMES.length;

function added(page: Float64Array): RoceCounters {
  const counters = new RoceCounters();
  for (const share of Object.values(Share)) {
    for (const [i, name] of NAMES.entries()) counters[name] += page[COUNTERS_AT + share * SHARE + i];
  }
  return counters;
}

export class StatusPage {
  /** In this process. */
  readonly address: number;
  private readonly segment: Segment;
  private readonly door: Door;

  constructor(door: Door, name: string, where: string) {
    this.door = door;
    this.segment = createSegment(door, SEGMENT_NAME, PAGE);
    this.address = this.segment.address;
    const { f64, u8 } = this.segment;
    const text = (at: number, most: number, words: string): number => {
      const bytes = new TextEncoder().encode(words).subarray(0, most);
      u8.set(bytes, 8 * at);
      return bytes.length;
    };
    f64[NAME_LENGTH] = text(NAME_AT, NAME_BYTES, name);
    f64[WHERE_LENGTH] = text(WHERE_AT, WHERE_BYTES, where);
    f64[PID] = process.pid;
    f64[MAGIC] = MAGIC_VALUE;
  }

  set queuePairs(count: number) {
    this.segment.f64[QPS] = count;
  }

  /** What both threads have shown last. */
  get counters(): RoceCounters {
    return added(this.segment.f64);
  }

  close(): void {
    this.segment.f64[MAGIC] = 0;
    this.segment.close(this.door);
  }
}

/** A RoCE device as it shows itself. */
export interface RoceStatus {
  readonly pid: number;
  readonly name: string;
  /** Address and port. */
  readonly where: string;
  readonly queuePairs: number;
  /** At most half a second old. */
  readonly counters: RoceCounters;
}

function readStatus(path: string): RoceStatus | undefined {
  const page = new Float64Array(PAGE / 8);
  try {
    const fd = openSync(path, 'r');
    try {
      if (readSync(fd, page, 0, PAGE, 0) < PAGE || page[MAGIC] !== MAGIC_VALUE) return undefined;
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
  const bytes = new Uint8Array(page.buffer);
  const text = (at: number, length: number) => new TextDecoder().decode(bytes.subarray(8 * at, 8 * at + length));
  return {
    pid: page[PID],
    name: text(NAME_AT, page[NAME_LENGTH]),
    where: text(WHERE_AT, page[WHERE_LENGTH]),
    queuePairs: page[QPS],
    counters: added(page),
  };
}

function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** The RoCE devices of all processes that this user may look into. */
export function readRoceDevices(): RoceStatus[] {
  const found: RoceStatus[] = [];
  for (const pid of list('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of list(`/proc/${pid}/fd`)) {
      const path = `/proc/${pid}/fd/${fd}`;
      try {
        if (!readlinkSync(path).startsWith(`/memfd:${SEGMENT_NAME}`)) continue;
      } catch {
        continue;
      }
      const status = readStatus(path);
      if (status?.pid === Number(pid)) found.push(status);
    }
  }
  return found;
}
