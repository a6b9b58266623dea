/**
 * The memory that a queue pair shares between the program's thread and the engine: both queues, and two words.
 *
 *     [ FAILED | 64 bytes | send queue | receive queue ]
 *
 * FAILED is 1 in the error state. Who posts a receive request publishes it, then looks there: then the engine must be rung, so that it flushes.
 */

import { acquire } from '../../../native/ordering.js';
import { ReceiveQueue, type ReceiveQueueOptions } from '../../transport/receive-queue.js';
import { SendQueue, type SendQueueOptions } from '../../transport/send-queue.js';

const WORDS_BYTES = 64;
const FAILED = 0;

const aligned = (bytes: number): number => (bytes + 63) & ~63;

export class QueuePairMemory {
  readonly sendQueue: SendQueue;
  readonly receiveQueue: ReceiveQueue;
  private readonly words: Int32Array;

  static make(send: SendQueueOptions, receive: ReceiveQueueOptions): SharedArrayBuffer {
    return new SharedArrayBuffer(WORDS_BYTES + aligned(SendQueue.byteLength(send)) + ReceiveQueue.byteLength(receive));
  }

  constructor(send: SendQueueOptions, receive: ReceiveQueueOptions, buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer, 0, WORDS_BYTES >> 2);
    this.sendQueue = new SendQueue(send, buffer, WORDS_BYTES);
    this.receiveQueue = new ReceiveQueue(receive, buffer, WORDS_BYTES + aligned(SendQueue.byteLength(send)));
  }

  get isFailed(): boolean {
    return acquire(this.words, FAILED) !== 0;
  }

  set isFailed(on: boolean) {
    Atomics.store(this.words, FAILED, on ? 1 : 0);
  }
}
