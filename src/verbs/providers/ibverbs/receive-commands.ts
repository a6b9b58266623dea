/** Receive requests as commands of the block, for a queue pair's own queue and for a shared one. */

import { type RecvWorkRequest, rejectRequest } from '../../work-request.js';
import { type CommandBlock, ID, KIND, OBJECT, RECV_WORDS, SGE_WORDS, SGES } from './command-block.js';
import { refuseRequest } from './refused-request.js';

export class ReceiveCommands {
  private readonly block: CommandBlock;
  private readonly kind: number;
  private readonly object: number;
  private readonly depth: number;
  private readonly maxSge: number;

  constructor(block: CommandBlock, kind: number, object: number, depth: number, maxSge: number) {
    this.block = block;
    this.kind = kind;
    this.object = object;
    this.depth = depth;
    this.maxSge = maxSge;
  }

  /** Posts a request or a chain. Throws VERBS_INVALID or VERBS_QUEUE_FULL with the index of the first rejected one. */
  post(wr: RecvWorkRequest | readonly RecvWorkRequest[]): void {
    const chain = Array.isArray(wr) ? (wr as readonly RecvWorkRequest[]) : [wr as RecvWorkRequest];
    const { block } = this;
    let first = 0;
    let fault: string | undefined;
    let i = 0;
    for (; i < chain.length; i++) {
      const { sgl = [], id = 0 } = chain[i];
      if (sgl.length > this.maxSge) fault = `${sgl.length} scatter elements, but the queue was made for ${this.maxSge}`;
      else if (!Number.isSafeInteger(id)) fault = `id must be a safe integer: got ${String(id)}`;
      if (fault !== undefined) break;
      if (!block.hasRoom(4 * (RECV_WORDS + sgl.length * SGE_WORDS) + 8)) {
        this.flush(first);
        first = i;
      }
      const at = this.begin(id, sgl.length);
      for (let s = 0; s < sgl.length; s++) this.element(at, s, sgl[s].addr, sgl[s].length, sgl[s].lkey);
      block.close(RECV_WORDS + sgl.length * SGE_WORDS);
    }
    if (i > first) this.flush(first);
    if (fault !== undefined) rejectRequest(fault, i);
  }

  /** Posts one element without an object. */
  postOne(addr: number, length: number, lkey: number, id: number): void {
    const at = this.begin(id, 1);
    this.element(at, 0, addr, length, lkey);
    this.block.close(RECV_WORDS + SGE_WORDS);
    this.flush(0);
  }

  private begin(id: number, sges: number): number {
    const { words, doubles, next } = this.block;
    words[next + KIND] = this.kind;
    words[next + OBJECT] = this.object;
    doubles[(next + ID) >> 1] = id;
    words[next + SGES] = sges;
    return next;
  }

  private element(at: number, index: number, addr: number, length: number, lkey: number): void {
    const { words, doubles } = this.block;
    const to = at + RECV_WORDS + index * SGE_WORDS;
    doubles[to >> 1] = addr;
    words[to + 2] = length;
    words[to + 3] = lkey;
  }

  private flush(first: number): void {
    const errno = this.block.flush();
    if (errno === 0) return;
    refuseRequest(errno, first + this.block.taken, `the receive queue holds ${this.depth} requests`);
  }
}
