/**
 * The hello: what two workers tell each other when a queue pair is connected, as private data of the connection request and of its answer; and the
 * address blob of a worker, which anybody may pass on by any means.
 *
 * ```
 *   hello   0 version | 1 flags (1 mapped ring wanted) | 2 lanes | 3 lane number
 *           4 slots u32 | 8 bulk bytes u32 | 12 token of the endpoint at the other side (lanes after the first) u32 | 16 own token u32
 *           20 ring rkey u32 | 24 ring address f64 | 32 mailbox rkey u32 | 36 credits rkey u32 | 40 mailbox address f64 | 48 credits address f64
 *           56 worker id, 8 bytes | 64 length of service name u8, length of label u8 | 66 path u8 | 67 rail of the sender u8 | 68 paths u8 | 69 0
 *           then service name and label in UTF-8
 *
 *   address 0 version | 1 number of devices | 2 zeros | 8 worker id, 8 bytes | 16 host, 8 bytes
 *           then for each device: length of provider u8, length of target u8, both in UTF-8
 * ```
 */

import { MessagingError } from '../errors.js';

export const WIRE_VERSION = 2;
const FIXED = 70;
const ADDRESS_HEAD = 24;
/** What a connection request carries at most. */
const LONGEST = 196;

export interface Hello {
  readonly mapped: boolean;
  readonly lanes: number;
  readonly lane: number;
  /** Which path of the endpoint this lane is on. */
  readonly path: number;
  /** Paths that the initiator plans. */
  readonly paths: number;
  /** Number of the sender's device on this path. */
  readonly rail: number;
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
  bytes[66] = hello.path;
  bytes[67] = hello.rail;
  bytes[68] = hello.paths;
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
    path: bytes[66],
    paths: bytes[68],
    rail: bytes[67],
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

/** Where a worker takes connections on one of its devices. */
export interface DeviceAddress {
  readonly provider: string;
  /** Name, on a network with address and port: see `Listener.target` of the verbs. */
  readonly target: string;
}

/** What the blob of `worker.address` says. */
export interface WorkerAddress {
  readonly workerId: string;
  /** Eight bytes in hexadecimal: equal on one machine. */
  readonly host: string;
  /** In the order of the worker's rails. */
  readonly devices: readonly DeviceAddress[];
}

export function encodeAddress(address: WorkerAddress): Uint8Array {
  const head = Buffer.alloc(ADDRESS_HEAD);
  head[0] = WIRE_VERSION;
  head[1] = address.devices.length;
  head.write(address.workerId, 8, 'hex');
  head.write(address.host, 16, 'hex');
  const parts = address.devices.map(({ provider, target }) => {
    const texts = [provider, target].map((text) => Buffer.from(text));
    return Buffer.concat([Buffer.from(texts.map((text) => text.length)), ...texts]);
  });
  return new Uint8Array(Buffer.concat([head, ...parts]));
}

/** Throws MSG_REFUSED for another version, MSG_INVALID for something else. */
export function decodeAddress(data: Uint8Array): WorkerAddress {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length > 0) refuseVersion(bytes[0], 'worker address');
  const devices: DeviceAddress[] = [];
  let at = ADDRESS_HEAD;
  for (let i = 0; i < (bytes[1] ?? 0) && at + 2 <= bytes.length; i++) {
    const middle = at + 2 + bytes[at];
    const end = middle + bytes[at + 1];
    if (end > bytes.length) break;
    devices.push({ provider: bytes.toString('utf8', at + 2, middle), target: bytes.toString('utf8', middle, end) });
    at = end;
  }
  if (bytes.length < ADDRESS_HEAD || devices.length === 0 || devices.length !== bytes[1]) {
    throw new MessagingError('MSG_INVALID', `these ${bytes.length} bytes are no worker address`);
  }
  return { workerId: bytes.toString('hex', 8, 16), host: bytes.toString('hex', 16, 24), devices };
}
