/**
 * The memory of a shared receive queue: the queue, and the limit below which its event is raised once.
 */

import { ReceiveQueue, type ReceiveQueueOptions } from '../../transport/receive-queue.js';

const WORDS_BYTES = 64;
const LIMIT = 0;

export class SharedReceiveMemory {
  readonly queue: ReceiveQueue;
  private readonly words: Int32Array;

  static make(options: ReceiveQueueOptions): SharedArrayBuffer {
    return new SharedArrayBuffer(WORDS_BYTES + ReceiveQueue.byteLength(options));
  }

  constructor(options: ReceiveQueueOptions, buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer, 0, WORDS_BYTES >> 2);
    this.queue = new ReceiveQueue(options, buffer, WORDS_BYTES);
  }

  set limit(limit: number) {
    Atomics.store(this.words, LIMIT, limit);
  }

  /** True once, when fewer requests are left than the limit says; that disarms it. */
  isLimitReached(): boolean {
    const limit = Atomics.load(this.words, LIMIT);
    return limit > 0 && this.queue.count < limit && Atomics.compareExchange(this.words, LIMIT, limit, 0) === limit;
  }
}
