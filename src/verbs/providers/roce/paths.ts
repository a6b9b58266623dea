/**
 * The ends that packets go to and come from, by number: requests and state machines name an end by its index here.
 */

import type { End } from './messages.js';

/** One end: its address as the words of a batch descriptor, and the port that its device listens on. */
export class Path {
  readonly index: number;
  readonly end: End;
  readonly words: Uint32Array;

  constructor(index: number, end: End) {
    this.index = index;
    this.end = end;
    const bytes = new Uint8Array(16);
    bytes.set(end.address);
    this.words = new Uint32Array(bytes.buffer);
  }

  /** The address as two numbers of 64 bits. */
  get wide(): bigint[] {
    return [...new BigUint64Array(this.words.buffer)];
  }

  /** Whether a packet with this descriptor came from the address, whatever its port. */
  matches(descriptors: Uint32Array, at: number): boolean {
    const { words } = this;
    for (let i = 0; i < 4; i++) if (descriptors[at + 4 + i] !== words[i]) return false;
    return true;
  }
}

/** Ends that are remembered at most: a flood of invented addresses must not fill the memory. */
const MAX_PATHS = 65536;

export class Paths {
  private readonly byKey = new Map<string, Path>();
  private readonly list: Path[] = [];

  get(index: number): Path {
    return this.list[index];
  }

  /** The path to an end, made when it is new; undefined when there are too many. */
  to(end: End): Path | undefined {
    const key = `${Buffer.from(end.address).toString('latin1')}:${end.port}`;
    const known = this.byKey.get(key);
    if (known !== undefined || this.list.length >= MAX_PATHS) return known;
    const path = new Path(this.list.length, end);
    this.byKey.set(key, path);
    this.list.push(path);
    return path;
  }
}
