/**
 * The hello: what two workers tell each other when a queue pair is connected, as private data of the connection request and of its answer; and the
 * address blob of a worker, which anybody may pass on by any means.
 *
 * ```
 *   hello   0 version | 1 flags (1 mapped ring wanted) | 2 lanes | 3 lane number
 *           4 slots u32 | 8 bulk bytes u32 | 12 token of the endpoint at the other side (lanes after the first) u32 | 16 own token u32
 *           20 ring rkey u32 | 24 ring address f64 | 32 mailbox rkey u32 | 36 credits rkey u32 | 40 mailbox address f64 | 48 credits address f64
 *           56 worker id, 8 bytes | 64 length of service name u8, length of label u8, then both in UTF-8
 *
 *   address 0 version | 1 length of provider u8 | 2 length of target u8 | 3 zeros | 8 worker id, 8 bytes | then the two texts
 * ```
 */

import { MessagingError } from '../errors.js';

export const WIRE_VERSION = 1;
const FIXED = 66;
/** What a connection request carries at most. */
const LONGEST = 196;

export interface Hello {
  readonly mapped: boolean;
  readonly lanes: number;
  readonly lane: number;
  readonly slots: number;
  readonly bulkBytes: number;
  /** The endpoint at the other side that a further lane belongs to. */
  readonly joins: number;
  /** This side's endpoint. */
  readonly token: number;
  readonly ringAddress: number;
  readonly ringKey: number;
  readonly mailboxAddress: number;
  readonly mailboxKey: number;
  readonly creditsAddress: number;
  readonly creditsKey: number;
  /** 16 hexadecimal digits. */
  readonly workerId: string;
  /** Where this worker takes further lanes: the target of its listener. */
  readonly service: string;
  /** Who this is, for messages. */
  readonly label: string;
}

function refuseVersion(version: number, what: string): void {
  if (version === WIRE_VERSION) return;
  throw new MessagingError(
    'MSG_REFUSED',
    `the ${what} is of version ${version}, this side speaks ${WIRE_VERSION}: run the same version of verbena on both sides`,
  );
}

export function encodeHello(hello: Hello): Uint8Array {
  const service = Buffer.from(hello.service);
  const label = Buffer.from(hello.label).subarray(0, LONGEST - FIXED - service.length);
  const bytes = Buffer.alloc(FIXED + service.length + label.length);
  bytes[0] = WIRE_VERSION;
  bytes[1] = hello.mapped ? 1 : 0;
  bytes[2] = hello.lanes;
  bytes[3] = hello.lane;
  bytes.writeUInt32LE(hello.slots, 4);
  bytes.writeUInt32LE(hello.bulkBytes, 8);
  bytes.writeUInt32LE(hello.joins, 12);
  bytes.writeUInt32LE(hello.token, 16);
  bytes.writeUInt32LE(hello.ringKey, 20);
  bytes.writeDoubleLE(hello.ringAddress, 24);
  bytes.writeUInt32LE(hello.mailboxKey, 32);
  bytes.writeUInt32LE(hello.creditsKey, 36);
  bytes.writeDoubleLE(hello.mailboxAddress, 40);
  bytes.writeDoubleLE(hello.creditsAddress, 48);
  bytes.write(hello.workerId, 56, 'hex');
  bytes[64] = service.length;
  bytes[65] = label.length;
  service.copy(bytes, FIXED);
  label.copy(bytes, FIXED + service.length);
  return bytes;
}

/** Throws MSG_REFUSED for another version, MSG_INVALID for something else. */
export function decodeHello(data: Uint8Array): Hello {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length < FIXED) throw new MessagingError('MSG_INVALID', 'whoever connects is no worker: its hello is too short');
  refuseVersion(bytes[0], "peer's hello");
  const serviceEnd = FIXED + bytes[64];
  return {
    mapped: (bytes[1] & 1) !== 0,
    lanes: bytes[2],
    lane: bytes[3],
    slots: bytes.readUInt32LE(4),
    bulkBytes: bytes.readUInt32LE(8),
    joins: bytes.readUInt32LE(12),
    token: bytes.readUInt32LE(16),
    ringKey: bytes.readUInt32LE(20),
    ringAddress: bytes.readDoubleLE(24),
    mailboxKey: bytes.readUInt32LE(32),
    creditsKey: bytes.readUInt32LE(36),
    mailboxAddress: bytes.readDoubleLE(40),
    creditsAddress: bytes.readDoubleLE(48),
    workerId: bytes.toString('hex', 56, 64),
    service: bytes.toString('utf8', FIXED, serviceEnd),
    label: bytes.toString('utf8', serviceEnd, serviceEnd + bytes[65]),
  };
}

/** What the blob of `worker.address` says. */
export interface WorkerAddress {
  readonly provider: string;
  /** Name, on a network with address and port: see `Listener.target` of the verbs. */
  readonly target: string;
  readonly workerId: string;
}

export function encodeAddress(address: WorkerAddress): Uint8Array {
  const texts = [address.provider, address.target].map((text) => Buffer.from(text));
  const head = Buffer.alloc(16);
  head[0] = WIRE_VERSION;
  texts.forEach((text, i) => {
    head[1 + i] = text.length;
  });
  head.write(address.workerId, 8, 'hex');
  return new Uint8Array(Buffer.concat([head, ...texts]));
}

/** Throws MSG_REFUSED for another version, MSG_INVALID for something else. */
export function decodeAddress(data: Uint8Array): WorkerAddress {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length > 0) refuseVersion(bytes[0], 'worker address');
  if (bytes.length < 16 || bytes.length < 16 + bytes[1] + bytes[2]) {
    throw new MessagingError('MSG_INVALID', `these ${bytes.length} bytes are no worker address`);
  }
  const second = 16 + bytes[1];
  return {
    provider: bytes.toString('utf8', 16, second),
    target: bytes.toString('utf8', second, second + bytes[2]),
    workerId: bytes.toString('hex', 8, 16),
  };
}
