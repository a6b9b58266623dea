/** Receive requests of a queue pair, oldest first: a ring of numbers; lists of several elements stand beside it. */

import type { Sge } from '../../work-request.js';

export class ReceiveList {
  private readonly depth: number;
  private readonly mask: number;
  private readonly ids: Float64Array;
  private readonly addresses: Float64Array;
  private readonly lengths: Uint32Array;
  private readonly keys: Uint32Array;
  private readonly lists: (readonly Sge[] | undefined)[] = [];
  private head = 0;
  private tail = 0;

  constructor(depth: number, _maxSge: number) {
    let size = 1;
    while (size < depth) size *= 2;
    this.depth = depth;
    this.mask = size - 1;
    this.ids = new Float64Array(size);
    this.addresses = new Float64Array(size);
    this.lengths = new Uint32Array(size);
    this.keys = new Uint32Array(size);
  }

  get count(): number {
    return this.tail - this.head;
  }

  add(id: number, sgl: readonly Sge[]): boolean {
    if (sgl.length === 1) return this.addOne(id, sgl[0].addr, sgl[0].length, sgl[0].lkey);
    if (this.count >= this.depth) return false;
    const at = this.tail++ & this.mask;
    this.ids[at] = id;
    this.lengths[at] = 0;
    this.lists[at] = sgl;
    return true;
  }

  addOne(id: number, addr: number, length: number, lkey: number): boolean {
    if (this.count >= this.depth) return false;
    const at = this.tail++ & this.mask;
    this.ids[at] = id;
    this.addresses[at] = addr;
    this.lengths[at] = length;
    this.keys[at] = lkey;
    this.lists[at] = undefined;
    return true;
  }

  /** Bytes that the oldest request takes. */
  get firstLength(): number {
    const at = this.head & this.mask;
    return this.lists[at]?.reduce((sum, { length }) => sum + length, 0) ?? this.lengths[at];
  }

  firstList(): readonly Sge[] {
    const at = this.head & this.mask;
    return this.lists[at] ?? [{ addr: this.addresses[at], length: this.lengths[at], lkey: this.keys[at] }];
  }

  /** Takes the oldest request out; returns its id. */
  take(): number {
    return this.ids[this.head++ & this.mask];
  }

  clear(): void {
    this.head = this.tail;
  }
}
