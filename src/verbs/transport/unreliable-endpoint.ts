/**
 * What UC and UD have in common: nobody answers, so a request completes when its last packet has left, and a local fault stops the send queue alone.
 *
 *     start ──> packets ──> complete, next request          local fault ──> send queue error (sends flush) ── resume ──>
 */

import { STATUS } from '../status.js';
import type { EndpointParts } from './endpoint-parts.js';
import { NEVER, type TransportEndpoint } from './host.js';
import { Packet } from './packet.js';
import { psnAdd } from './psn.js';

export abstract class UnreliableEndpoint implements TransportEndpoint {
  readonly deadline = NEVER;
  abstract readonly destination: number;
  protected readonly parts: EndpointParts;
  protected readonly out = new Packet();
  protected isFailed = false;
  private isSendFailed = false;
  private isPaused = false;
  private drainEnd = 0;

  constructor(parts: EndpointParts, psn: number, partitionKey = 0xffff) {
    this.parts = parts;
    this.out.migrated = true;
    this.out.partitionKey = partitionKey;
    this.out.psn = psn;
  }

  abstract receive(p: Packet, b: Uint8Array): void;
  abstract next(b: Uint8Array, at: number): number;
  abstract flush(): void;

  /** No timer ever runs. */
  tick(): void {}

  /** Finishes what is in the queue now and starts nothing after it; the host hears SQ_DRAINED when it is out. */
  drain(): void {
    this.isPaused = true;
    this.drainEnd = this.parts.sendQueue.tail;
    if (this.parts.sendQueue.count === 0) this.parts.host.event('SQ_DRAINED');
  }

  /** The PSN that the next packet will have: set when the queue pair is made ready to send. */
  startAt(psn: number): void {
    this.out.psn = psn;
  }

  /** Ends a drain, or the send queue's error state. */
  resume(): void {
    this.isPaused = false;
    this.isSendFailed = false;
  }

  /** Whether the request at the head may be sent. In an error state all are flushed. */
  protected canSend(): boolean {
    const { sendQueue, host } = this.parts;
    if (this.isFailed || this.isSendFailed) sendQueue.flush(host);
    return sendQueue.count > 0;
  }

  /** The request at the head was posted after the drain began. */
  protected get isHeldBack(): boolean {
    return this.isPaused && this.parts.sendQueue.head === this.drainEnd;
  }

  /** A packet of so many bytes has left; the last one of its request completes it. */
  protected left(bytes: number, isLast: boolean): number {
    const { sendQueue, host, counters } = this.parts;
    this.out.psn = psnAdd(this.out.psn, 1);
    counters.packetsSent++;
    counters.bytesSent += bytes;
    if (isLast) {
      sendQueue.complete(host, STATUS.SUCCESS);
      if (this.isHeldBack) host.event('SQ_DRAINED');
    }
    return bytes;
  }

  /** A send request fails: the send queue stops, receiving goes on. */
  protected fail(status: number): 0 {
    const { sendQueue, host } = this.parts;
    sendQueue.complete(host, status);
    sendQueue.flush(host);
    this.isSendFailed = true;
    host.sendQueueError();
    return 0;
  }

  /** A receive request fails: both queues stop. */
  protected stop(): void {
    this.flush();
    this.parts.host.event('QP_FATAL');
  }
}
