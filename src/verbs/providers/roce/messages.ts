/**
 * What the program's thread asks of the engine and what the engine tells it. Commands are rare (making, changing and closing objects); posting
 * and completing go through shared rings and never through here.
 */

import type { AsyncEventType } from '../../device.js';
import type { QpType } from '../../opcode.js';
import type { QpAttributes, QpState } from '../../qp-state.js';
import type { CmAcceptReply, CmConnectRequest } from '../../transport/cm-agent.js';
import type { CmRep, CmReq } from '../../transport/cm-messages.js';
import type { ReceiveQueueOptions } from '../../transport/receive-queue.js';
import type { SendQueueOptions } from '../../transport/send-queue.js';
import type { RegionRecord } from './address-memory.js';

/** What a queue pair of the engine is made from. */
export interface QueuePairRecord {
  readonly slot: number;
  readonly qpNum: number;
  readonly type: QpType;
  readonly domain: number;
  readonly sendCq: number;
  readonly recvCq: number;
  /** Number of the shared receive queue, or -1. */
  readonly srq: number;
  readonly send: SendQueueOptions;
  readonly receive: ReceiveQueueOptions;
  /** Both queues and the words of queue-pair-memory.ts. */
  readonly buffer: SharedArrayBuffer;
  readonly dcKey: number;
}

/** An IP address of 4 or 16 bytes and a port. */
export interface End {
  readonly address: Uint8Array;
  readonly port: number;
}

export type Command =
  | { kind: 'createCq'; cq: number; depth: number; buffer: SharedArrayBuffer }
  | { kind: 'closeCq'; cq: number }
  | { kind: 'createSrq'; srq: number; options: ReceiveQueueOptions; buffer: SharedArrayBuffer }
  | { kind: 'closeSrq'; srq: number }
  | { kind: 'createQp'; record: QueuePairRecord }
  | { kind: 'closeQp'; slot: number }
  | {
      kind: 'modify';
      slot: number;
      from: QpState;
      to: QpState;
      attributes: QpAttributes;
      changed: QpAttributes;
      peer?: End;
      state?: SharedArrayBuffer;
    }
  | { kind: 'stop'; slot: number }
  /** A queue pair joins a multicast group, or leaves it. */
  | { kind: 'join' | 'leave'; slot: number; group: End }
  | { kind: 'register'; region: RegionRecord }
  | { kind: 'revoke'; key: number }
  /** Answers with the number that requests use as their destination. */
  | { kind: 'path'; end: End }
  /** Lends the data path to the program. Answers with the slots of the queue pairs that are connected, or undefined. */
  | { kind: 'lend' }
  /** A packet that arrived while the data path was lent, and its descriptor. */
  | { kind: 'packet'; bytes: Uint8Array; words: Uint32Array }
  | { kind: 'counters' }
  | { kind: 'listen'; serviceId: bigint }
  | { kind: 'unlisten'; serviceId: bigint }
  /** Answers with the connection's id. */
  | { kind: 'connect'; end: End; request: CmConnectRequest }
  | { kind: 'accept'; id: number; reply: CmAcceptReply }
  | { kind: 'reject'; id: number; privateData: Uint8Array; reason: number }
  | { kind: 'disconnect'; id: number }
  | { kind: 'close' };

export type Answer = { value: unknown } | { error: string };

export type Notice =
  /** The transport changed a queue pair's state. `epoch` counts its RESETs, so that old news is not taken for new. */
  | { kind: 'state'; qpNum: number; epoch: number; state: 'ERR' | 'SQE' }
  | { kind: 'event'; type: AsyncEventType; qpNum?: number; words?: string }
  | { kind: 'invalidated'; key: number }
  | { kind: 'connectRequest'; id: number; request: CmReq; end: End }
  | { kind: 'established'; id: number; reply: CmRep | undefined }
  | { kind: 'rejected'; id: number; reason: number; privateData: Uint8Array }
  | { kind: 'disconnected'; id: number };

/** What the engine starts with. */
export interface EngineData {
  readonly datagram: number;
  readonly address: Uint8Array;
  readonly port: number;
  readonly mtu: number;
  /** Packets a reliable connection may have outstanding. */
  readonly window: number;
  readonly board: SharedArrayBuffer;
  /** Descriptor of the program's bell. */
  readonly bell: number;
  /** Longest busy wait before sleeping, microseconds. */
  readonly spinUs: number;
  /** Address of the device's status page. */
  readonly statusPage: number;
  /** Where the ids of connections start. */
  readonly seed: number;
}
