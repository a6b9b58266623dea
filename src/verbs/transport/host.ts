/**
 * What a state machine reports, and the shape all of them have: the seam between transport and provider.
 *
 * A provider drives an endpoint with four calls and nothing else:
 *
 *     packet arrived     endpoint.receive(packet, bytes, now, source)
 *     room to send       endpoint.next(buffer, at, now)        until it returns 0
 *     deadline passed    endpoint.tick(now)
 *     posted             nothing; the next `next` sees it
 *
 * Time is an integer of nanoseconds that never goes back; where it starts is the provider's business.
 */

import type { AsyncEventType } from '../device.js';
import type { Packet } from './packet.js';

/** Receives completions and events. Arguments are numbers, so that reporting allocates nothing. */
export interface TransportHost {
  /** A send request is done. `opcode` is a position in OPCODES, `status` a number of STATUS; `byteLength` counts bytes read. */
  sendComplete(id: number, status: number, opcode: number, byteLength: number): void;
  /** A receive request is done. `opcode` is WC_RECV or WC_RECV_RDMA_WITH_IMM, `flags` the WC_* bits of work-completions.ts. */
  receiveComplete(
    id: number,
    status: number,
    opcode: number,
    byteLength: number,
    immediate: number,
    flags: number,
    sourceQp: number,
    solicited: boolean,
  ): void;
  /** A send request of an unreliable service failed: its send queue is in error (state SQE), receiving goes on. */
  sendQueueError(): void;
  /** Something happened that belongs to no request. QP_FATAL, QP_REQ_ERR and QP_ACCESS_ERR mean that the endpoint is in the error state. */
  event(type: AsyncEventType): void;
}

/** No timer runs. */
export const NEVER = Number.POSITIVE_INFINITY;

/** One end of a transport service. */
export interface TransportEndpoint {
  /** When `tick` wants to be called, nanoseconds; `NEVER` when no timer runs. May change with every call. */
  readonly deadline: number;
  /** Address handle of the packet that `next` made last: for services that reach many peers; 0 for the connected ones. */
  readonly destination: number;
  /**
   * Takes a decoded packet that is for this endpoint. `b` holds its payload. `source` is the provider's number of who sent it, in the terms of
   * `destination`; the services that reach many peers answer there.
   */
  receive(p: Packet, b: Uint8Array, now: number, source: number): void;
  /** Writes one packet at `b[at]` (BTH to padding, without ICRC) and returns its length, or 0 when there is nothing to send now. */
  next(b: Uint8Array, at: number, now: number): number;
  /** Timers whose time has come are served. */
  tick(now: number): void;
  /** To the error state: every request of both queues is flushed; later posts flush at the next `next`. */
  flush(): void;
}

/** Totals of one endpoint. */
export class TransportCounters {
  packetsSent = 0;
  packetsReceived = 0;
  bytesSent = 0;
  bytesReceived = 0;
  retransmitted = 0;
  timeouts = 0;
  sequenceNaks = 0;
  rnrNaks = 0;
  duplicates = 0;
  outOfSequence = 0;
  /** Packets dropped because they made no sense in the present state. */
  dropped = 0;
}
