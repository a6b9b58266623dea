/**
 * The byte stream of an endpoint: ordered, without message borders, with its own window.
 *
 * The window is how many bytes the peer may send ahead of reading. What has arrived and is not read lies in blocks of at most that size together, so a
 * reader that stops makes the writer wait and nothing grow. A reader that waits gets its bytes straight from the ring.
 */

import { Duplex } from 'node:stream';
import type { Endpoint } from '../endpoint.js';
import { MessagingError } from '../errors.js';
import { copyBytes, type Data, type Payload, payloadOf } from '../payload.js';
import type { CallOptions } from '../request.js';
import { KIND_STREAM, PENDING, type RequestRow } from '../requests.js';

/** Flag: the writer has ended. */
const END = 1;
/** Bytes that a Duplex reads at once. */
const CHUNK_BYTES = 64 << 10;

interface Reader {
  readonly into: Uint8Array;
  settle(count: number): void;
  fail(error: Error): void;
}

export class EndpointStream {
  readonly #endpoint: Endpoint;
  readonly #window: number;
  /** Bytes that may be sent before the peer has read some. */
  #credit: number;
  #ended = false;
  readonly #blocks: Uint8Array[] = [];
  #blockAt = 0;
  #held = 0;
  #unreported = 0;
  #peerEnded = false;
  #failure: Error | undefined;
  readonly #readers: Reader[] = [];
  /** Memory of the reader that spins, and how much of it is filled. */
  #target: Uint8Array | undefined;
  #filled = 0;
  /** What a reader spins for. */
  readonly #arrival: { readonly done: boolean };

  constructor(endpoint: Endpoint, window: number) {
    this.#endpoint = endpoint;
    this.#window = window;
    this.#credit = window;
    const isReadable = () => this.#held + this.#filled > 0 || this.#peerEnded || this.#failure !== undefined;
    this.#arrival = {
      get done() {
        return isReadable();
      },
    };
  }

  /** Bytes that have arrived and are not read. */
  get readable(): number {
    return this.#held;
  }

  /** Writes bytes; resolves when the memory may be used again. Throws PeerLost, MSG_CLOSED, MSG_TIMEOUT, the signal's reason. */
  async write(data: Data, options?: CallOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    if (this.#ended) throw new MessagingError('MSG_CLOSED', 'the stream was ended');
    await this.#push(payloadOf(data), 0, options);
  }

  /** Says that nothing more comes: reads at the peer return 0 when everything is read. */
  async end(options?: CallOptions): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#push(payloadOf(new Uint8Array(0)), END, options);
  }

  async #push(payload: Payload, flags: number, options?: CallOptions): Promise<void> {
    const endpoint = this.#endpoint;
    const { worker } = endpoint;
    if (endpoint.state !== 'ready' || endpoint.closedByPeer) {
      endpoint.check();
      endpoint.connect?.();
    }
    const { requests } = worker;
    const row = requests.begin(KIND_STREAM, payload);
    row.endpoint = endpoint.id;
    row.length = payload.length;
    row.flags = flags;
    endpoint.streamQueue.push(row.handle);
    endpoint.waiting = true;
    const request = worker.own(row.handle + 1);
    worker.poll();
    await request.wait(options);
  }

  /** Sends what fits the window. Returns how many writes are over. */
  advanceAll(): number {
    const queue = this.#endpoint.streamQueue;
    const { requests } = this.#endpoint.worker;
    let n = 0;
    while (queue.length > 0) {
      const row = requests.find(queue[0]);
      if (row !== undefined && row.state === PENDING && !this.#advance(row)) break;
      queue.shift();
      n++;
    }
    return n;
  }

  /** True when all of a write is gone. */
  #advance(row: RequestRow): boolean {
    const endpoint = this.#endpoint;
    const { requests } = endpoint.worker;
    const payload = row.payload as Payload;
    const longest = Math.min(endpoint.streamPiece, this.#window >> 1);
    const isEnd = row.flags === END;
    do {
      const offset = row.moved;
      const count = Math.min(longest, payload.length - offset, this.#credit);
      if (count === 0 && offset < payload.length) return false;
      if (!endpoint.sendStream(payload, offset, count, isEnd)) return false;
      this.#credit -= count;
      row.moved = offset + count;
    } while (row.moved < payload.length);
    requests.complete(row);
    return true;
  }

  /** The peer has read. */
  onCredit(count: number): void {
    this.#credit += count;
    if (this.#endpoint.streamQueue.length > 0) this.#endpoint.waiting = true;
  }

  /** Bytes came. */
  onBytes(u8: Uint8Array, from: number, count: number, isEnd: boolean): void {
    let at = from;
    let left = count;
    if (isEnd) this.#peerEnded = true;
    const target = this.#target;
    if (target !== undefined && left > 0) {
      const taken = Math.min(left, target.length - this.#filled);
      copyBytes(u8, at, target, this.#filled, taken);
      this.#filled += taken;
      at += taken;
      left -= taken;
      this.#consumed(taken);
    }
    while (left > 0 && this.#readers.length > 0) {
      const waiting = this.#readers.shift() as Reader;
      const taken = Math.min(left, waiting.into.length);
      copyBytes(u8, at, waiting.into, 0, taken);
      at += taken;
      left -= taken;
      this.#consumed(taken);
      waiting.settle(taken);
    }
    if (left > 0) {
      this.#blocks.push(u8.slice(at, at + left));
      this.#held += left;
    }
    if (this.#peerEnded) for (const waiting of this.#readers.splice(0)) waiting.settle(0);
  }

  #consumed(count: number): void {
    this.#unreported += count;
    if (this.#unreported < this.#window >> 2) return;
    this.#endpoint.creditStream(this.#unreported);
    this.#unreported = 0;
  }

  /**
   * Reads what is there, at least one byte, at most what `into` holds; 0 when the peer has ended the stream and everything is read. Throws PeerLost when
   * the peer is gone, MSG_TIMEOUT, the signal's reason.
   */
  async read(into: ArrayBuffer | ArrayBufferView, options: CallOptions = {}): Promise<number> {
    const target = payloadOf(into).bytes;
    options.signal?.throwIfAborted();
    if (this.#held === 0 && this.#readers.length === 0 && target.length > 0) {
      const filled = this.#spin(target);
      if (filled > 0) return filled;
    }
    if (this.#held > 0 && this.#readers.length === 0) return this.#take(target);
    if (this.#peerEnded) return 0;
    if (this.#failure) throw this.#failure;
    if (target.length === 0) return 0;
    return this.#wait(target, options);
  }

  /** Looks for a while, with the reader's memory at hand: what comes meanwhile goes straight there. */
  #spin(target: Uint8Array): number {
    const { worker } = this.#endpoint;
    this.#target = target;
    this.#filled = 0;
    try {
      worker.poll();
      if (!this.#arrival.done) worker.driver.spin(this.#arrival);
    } finally {
      this.#target = undefined;
    }
    return this.#filled;
  }

  #take(target: Uint8Array): number {
    let filled = 0;
    while (filled < target.length && this.#blocks.length > 0) {
      const block = this.#blocks[0];
      const count = Math.min(block.length - this.#blockAt, target.length - filled);
      copyBytes(block, this.#blockAt, target, filled, count);
      filled += count;
      this.#blockAt += count;
      if (this.#blockAt === block.length) {
        this.#blocks.shift();
        this.#blockAt = 0;
      }
    }
    this.#held -= filled;
    this.#consumed(filled);
    return filled;
  }

  #wait(target: Uint8Array, options: CallOptions): Promise<number> {
    const { worker } = this.#endpoint;
    const { signal, timeoutMs = worker.timeoutMs } = options;
    const observed = worker.onWait?.('stream read', this.#endpoint);
    return new Promise((resolve, reject) => {
      const end = (act: () => void) => {
        observed?.();
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = this.#readers.indexOf(reader);
        if (at >= 0) this.#readers.splice(at, 1);
        worker.driver.leave();
        act();
      };
      const reader: Reader = {
        into: target,
        settle: (count) => end(() => resolve(count)),
        fail: (error) => end(() => reject(error)),
      };
      const abort = () => end(() => reject(signal?.reason));
      const late = () => new MessagingError('MSG_TIMEOUT', `no bytes from ${this.#endpoint.peer} within ${timeoutMs} ms`);
      const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => end(() => reject(late())), timeoutMs);
      signal?.addEventListener('abort', abort, { once: true });
      this.#readers.push(reader);
      worker.driver.join();
      worker.driver.start();
    });
  }

  /** The endpoint is gone. What arrived can still be read. */
  fail(error: Error): void {
    this.#failure = error;
    for (const reader of this.#readers.splice(0)) reader.fail(error);
  }

  /** A Node stream over this one. Make one only, and use it instead of read and write. */
  toDuplex(): Duplex {
    const forever = { timeoutMs: Number.POSITIVE_INFINITY };
    const duplex: Duplex = new Duplex({
      read: () => {
        const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
        this.read(buffer, forever).then(
          (count) => duplex.push(count === 0 ? null : buffer.subarray(0, count)),
          (error: Error) => duplex.destroy(error),
        );
      },
      write: (data: Buffer, _encoding, done) => {
        this.write(data, forever).then(() => done(), done);
      },
      final: (done) => {
        this.end(forever).then(() => done(), done);
      },
    });
    return duplex;
  }
}
