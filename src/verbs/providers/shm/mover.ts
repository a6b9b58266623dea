/**
 * Moves bytes between lists of local and of remote pieces: what a NIC's DMA engine does.
 *
 * Local pieces are addresses of this process. A remote piece is one too when its memory is mapped here; else it is an address of the other process and
 * goes through the kernel (process_vm_readv/writev). One object per device; its lists are reused, so moving allocates nothing.
 */

import type { Door } from '../../../native/door.js';
import { KIND_UMR } from './layout.js';
import type { Peer, RemoteRef } from './peer.js';

const MOST = 64;

export class Mover {
  readonly #door: Door;
  /** Local list. */
  #localAddress = new Float64Array(MOST);
  #localLength = new Float64Array(MOST);
  #localCount = 0;
  /** Remote list; `direct` 1: mapped here. */
  #remoteAddress = new Float64Array(MOST);
  #remoteLength = new Float64Array(MOST);
  #direct = new Uint8Array(MOST);
  #remoteCount = 0;
  /** System calls made by the last move. */
  systemCalls = 0;

  constructor(door: Door) {
    this.#door = door;
  }

  clearLocal(): void {
    this.#localCount = 0;
  }

  addLocal(address: number, length: number): void {
    if (this.#localCount === this.#localAddress.length) {
      this.#localAddress = doubled(this.#localAddress);
      this.#localLength = doubled(this.#localLength);
    }
    this.#localAddress[this.#localCount] = address;
    this.#localLength[this.#localCount++] = length;
  }

  clearRemote(): void {
    this.#remoteCount = 0;
  }

  /** Adds a range of a peer's region, in address order; follows the runs of an indexed or strided one. False when a base region is gone. */
  addRemote(peer: Peer, ref: RemoteRef, address: number, length: number): boolean {
    if (ref.kind !== KIND_UMR) {
      const within = address - ref.address;
      this.#push(ref.base === 0 ? address : ref.base + within, length, ref.base === 0 ? 0 : 1);
      return true;
    }
    let skip = address - ref.address;
    let left = length;
    for (const run of ref.runs) {
      const bytes = run.blockLength * run.count;
      if (skip >= bytes) {
        skip -= bytes;
        continue;
      }
      const base = peer.resolve(run.key);
      if (!base) return false;
      for (let block = Math.floor(skip / run.blockLength); block < run.count && left > 0; block++) {
        const inside = skip - block * run.blockLength;
        const from = Math.max(inside, 0);
        const n = Math.min(left, run.blockLength - from);
        const at = run.address + block * run.stride + from;
        this.#push(base.base === 0 ? at : base.base + (at - base.address), n, base.base === 0 ? 0 : 1);
        left -= n;
      }
      if (left === 0) return true;
      skip = 0;
    }
    return left === 0;
  }

  #push(address: number, length: number, direct: number): void {
    if (this.#remoteCount === this.#remoteAddress.length) {
      this.#remoteAddress = doubled(this.#remoteAddress);
      this.#remoteLength = doubled(this.#remoteLength);
      this.#direct = doubled(this.#direct);
    }
    this.#remoteAddress[this.#remoteCount] = address;
    this.#remoteLength[this.#remoteCount] = length;
    this.#direct[this.#remoteCount++] = direct;
  }

  /** Address of the first remote piece when it is mapped and holds `length` bytes, else 0. */
  directAddress(length: number): number {
    return this.#direct[0] === 1 && this.#remoteLength[0] >= length ? this.#remoteAddress[0] : 0;
  }

  /** Calls `part` for every pair of pieces that belong together. Stops at a non-zero result and returns it. */
  #walk(write: boolean, part: (to: number, from: number, length: number, direct: number) => number): number {
    let l = 0;
    let r = 0;
    let lUsed = 0;
    let rUsed = 0;
    while (l < this.#localCount && r < this.#remoteCount) {
      const n = Math.min(this.#localLength[l] - lUsed, this.#remoteLength[r] - rUsed);
      if (n > 0) {
        const local = this.#localAddress[l] + lUsed;
        const remote = this.#remoteAddress[r] + rUsed;
        const result = part(write ? remote : local, write ? local : remote, n, this.#direct[r]);
        if (result !== 0) return result;
      }
      lUsed += n;
      rUsed += n;
      if (lUsed === this.#localLength[l]) {
        l++;
        lUsed = 0;
      }
      if (rUsed === this.#remoteLength[r]) {
        r++;
        rUsed = 0;
      }
    }
    return 0;
  }

  /** Moves everything now, on this thread. `write`: local to remote. Returns 0 or an errno. */
  move(pid: number, write: boolean): number {
    this.systemCalls = 0;
    if (this.#localCount === 1 && this.#remoteCount === 1) {
      const local = this.#localAddress[0];
      const remote = this.#remoteAddress[0];
      const length = Math.min(this.#localLength[0], this.#remoteLength[0]);
      return this.#copy(write ? remote : local, write ? local : remote, length, this.#direct[0], pid, write);
    }
    return this.#walk(write, (to, from, length, direct) => this.#copy(to, from, length, direct, pid, write));
  }

  #copy(to: number, from: number, length: number, direct: number, pid: number, write: boolean): number {
    const { command, addon } = this.#door;
    command[0] = to;
    command[1] = from;
    command[2] = length;
    if (direct === 1) {
      addon.copy();
      return 0;
    }
    command[3] = pid;
    if (write) addon.writeProcess();
    else addon.readProcess();
    this.systemCalls++;
    return command[4];
  }

  /** Writes the parts as the transfer thread takes them. Returns their number, or -1 when there are more than fit. */
  parts(into: Float64Array, write: boolean): number {
    let count = 0;
    const most = into.length >> 2;
    const full = this.#walk(write, (to, from, length, direct) => {
      if (count === most) return 1;
      into[count * 4] = to;
      into[count * 4 + 1] = from;
      into[count * 4 + 2] = length;
      into[count * 4 + 3] = direct === 1 ? 0 : write ? 1 : 2;
      count++;
      return 0;
    });
    return full === 0 ? count : -1;
  }
}

/** A copy with twice the room. */
function doubled<T extends Float64Array | Uint8Array>(list: T): T {
  const grown = new (list.constructor as new (length: number) => T)(list.length * 2);
  grown.set(list);
  return grown;
}
