/**
 * Connection management messages as on the wire: management datagrams (MADs) of 256 bytes, sent to queue pair 1.
 *
 *     0   base version 1, class 7 (communication management), class version 2, method 3 (send)
 *     4   status, class specific | 8  transaction id | 16  attribute: which message | 20  modifier
 *     24  the message's own fields: the tables below | private data to the end
 *
 * The fields are rows of a table: byte, first bit in it (from the top), width in bits. A row per field of chapter 12 of the
 * specification, so encoding and decoding are one loop each.
 */

export const MAD_BYTES = 256;

/** Queue pair of connection management, and the Q_Key all of them use. */
export const CM_QP = 1;
export const CM_QUEUE_KEY = 0x80010000;

export type CmKind = 'REQ' | 'MRA' | 'REJ' | 'REP' | 'RTU' | 'DREQ' | 'DREP';

/** Numbers for fields up to 32 bits, bigint for 64, bytes for GIDs and information. */
type Value = number | bigint | Uint8Array;
type Row = readonly [name: string, byte: number, bit: number, width: number];

interface Layout {
  readonly attribute: number;
  readonly rows: readonly Row[];
  /** Where private data begins, after the MAD header. */
  readonly privateAt: number;
  readonly privateBytes: number;
}

const IDS: readonly Row[] = [
  ['localId', 0, 0, 32],
  ['remoteId', 4, 0, 32],
];

const LAYOUTS: Readonly<Record<CmKind, Layout>> = {
  REQ: {
    attribute: 0x10,
    privateAt: 140,
    privateBytes: 92,
    rows: [
      ['localId', 0, 0, 32],
      ['serviceId', 8, 0, 64],
      ['localGuid', 16, 0, 64],
      ['queueKey', 28, 0, 32],
      ['qpNum', 32, 0, 24],
      ['responderResources', 35, 0, 8],
      ['initiatorDepth', 39, 0, 8],
      ['remoteResponseTimeout', 43, 0, 5],
      ['service', 43, 5, 2],
      ['flowControl', 43, 7, 1],
      ['startingPsn', 44, 0, 24],
      ['localResponseTimeout', 47, 0, 5],
      ['retryCount', 47, 5, 3],
      ['partitionKey', 48, 0, 16],
      ['mtuCode', 50, 0, 4],
      ['rnrRetry', 50, 5, 3],
      ['maxCmRetries', 51, 0, 4],
      ['hasSrq', 51, 4, 1],
      ['localLid', 52, 0, 16],
      ['remoteLid', 54, 0, 16],
      ['localGid', 56, 0, 128],
      ['remoteGid', 72, 0, 128],
      ['flowLabel', 88, 0, 20],
      ['packetRate', 91, 2, 6],
      ['trafficClass', 92, 0, 8],
      ['hopLimit', 93, 0, 8],
      ['serviceLevel', 94, 0, 4],
      ['isSubnetLocal', 94, 4, 1],
      ['ackTimeout', 95, 0, 5],
    ],
  },
  MRA: {
    attribute: 0x11,
    privateAt: 10,
    privateBytes: 222,
    rows: [...IDS, ['message', 8, 0, 2], ['serviceTimeout', 9, 0, 5]],
  },
  REJ: {
    attribute: 0x12,
    privateAt: 84,
    privateBytes: 148,
    rows: [...IDS, ['message', 8, 0, 2], ['informationLength', 9, 0, 7], ['reason', 10, 0, 16], ['information', 12, 0, 576]],
  },
  REP: {
    attribute: 0x13,
    privateAt: 36,
    privateBytes: 196,
    rows: [
      ...IDS,
      ['queueKey', 8, 0, 32],
      ['qpNum', 12, 0, 24],
      ['startingPsn', 20, 0, 24],
      ['responderResources', 24, 0, 8],
      ['initiatorDepth', 25, 0, 8],
      ['targetAckDelay', 26, 0, 5],
      ['failover', 26, 5, 2],
      ['flowControl', 26, 7, 1],
      ['rnrRetry', 27, 0, 3],
      ['hasSrq', 27, 3, 1],
      ['localGuid', 28, 0, 64],
    ],
  },
  RTU: { attribute: 0x14, privateAt: 8, privateBytes: 224, rows: IDS },
  DREQ: { attribute: 0x15, privateAt: 12, privateBytes: 220, rows: [...IDS, ['qpNum', 8, 0, 24]] },
  DREP: { attribute: 0x16, privateAt: 8, privateBytes: 224, rows: IDS },
};

interface Common {
  /** Pairs a request with its answers; the same in all messages of one handshake. */
  transaction: bigint;
  /** The sender's name for the connection. */
  localId: number;
  privateData: Uint8Array;
}

/** Asks for a connection. */
export interface CmReq extends Common {
  kind: 'REQ';
  serviceId: bigint;
  localGuid: bigint;
  queueKey: number;
  qpNum: number;
  /** READs and atomics the sender takes, and wants to have outstanding. */
  responderResources: number;
  initiatorDepth: number;
  /** Exponents of 4.096 us: how long to wait for the other side's answer, how long the sender may take. */
  remoteResponseTimeout: number;
  localResponseTimeout: number;
  /** Transport service: 0 RC, 1 UC. */
  service: number;
  flowControl: number;
  startingPsn: number;
  retryCount: number;
  partitionKey: number;
  /** 1 to 5: 256 to 4096 bytes. */
  mtuCode: number;
  rnrRetry: number;
  maxCmRetries: number;
  hasSrq: number;
  /** Local identifiers of InfiniBand; 0xffff on RoCE. */
  localLid: number;
  remoteLid: number;
  localGid: Uint8Array;
  remoteGid: Uint8Array;
  flowLabel: number;
  packetRate: number;
  trafficClass: number;
  hopLimit: number;
  serviceLevel: number;
  isSubnetLocal: number;
  ackTimeout: number;
}

/** Accepts. */
export interface CmRep extends Common {
  kind: 'REP';
  remoteId: number;
  queueKey: number;
  qpNum: number;
  startingPsn: number;
  responderResources: number;
  initiatorDepth: number;
  targetAckDelay: number;
  failover: number;
  flowControl: number;
  rnrRetry: number;
  hasSrq: number;
  localGuid: bigint;
}

/** Refuses. `message`: what is refused, 0 REQ, 1 REP, 2 no message. */
export interface CmRej extends Common {
  kind: 'REJ';
  remoteId: number;
  message: number;
  informationLength: number;
  reason: number;
  information: Uint8Array;
}

/** "I have your message and need longer." */
export interface CmMra extends Common {
  kind: 'MRA';
  remoteId: number;
  message: number;
  serviceTimeout: number;
}

/** Ready to use; disconnect answered. */
export interface CmRtu extends Common {
  kind: 'RTU' | 'DREP';
  remoteId: number;
}

/** Disconnects. */
export interface CmDreq extends Common {
  kind: 'DREQ';
  remoteId: number;
  qpNum: number;
}

export type CmMessage = CmReq | CmRep | CmRej | CmMra | CmRtu | CmDreq;

/** Reasons of a rejection that are used here. */
export const RejectReason = {
  noResources: 3,
  timeout: 4,
  invalidServiceId: 8,
  staleConnection: 10,
  invalidMtu: 26,
  consumer: 28,
} as const;

/** Longest private data of a kind, bytes. */
export function privateDataBytes(kind: CmKind): number {
  return LAYOUTS[kind].privateBytes;
}

function putRow(b: Uint8Array, base: number, [, byte, bit, width]: Row, value: Value): void {
  const at = base + byte;
  if (value instanceof Uint8Array) {
    b.set(value.subarray(0, width / 8), at);
  } else if (width === 64) {
    new DataView(b.buffer, b.byteOffset).setBigUint64(at, BigInt(value));
  } else {
    // Fields up to 8 bits lie in one byte; longer ones start at its first bit and are whole bytes but for the flow label.
    const bytes = Math.ceil((bit + width) / 8);
    let v = Number(value) * 2 ** (bytes * 8 - bit - width);
    for (let i = bytes - 1; i >= 0; i--) {
      b[at + i] |= v % 256;
      v = Math.floor(v / 256);
    }
  }
}

function getRow(b: Uint8Array, base: number, [, byte, bit, width]: Row): Value {
  const at = base + byte;
  if (width > 64) return b.slice(at, at + width / 8);
  if (width === 64) return new DataView(b.buffer, b.byteOffset).getBigUint64(at);
  const bytes = Math.ceil((bit + width) / 8);
  let v = 0;
  for (let i = 0; i < bytes; i++) v = v * 256 + b[at + i];
  return Math.floor(v / 2 ** (bytes * 8 - bit - width)) % 2 ** width;
}

/**
 * Writes the MAD of a message at `b[at]` and returns its length: 256 bytes, or more when the private data is longer than its kind
 * allows. Then the rest follows the MAD, in whole words: only peers of this library take that, so only such must be sent so much.
 */
export function encodeCm(m: CmMessage, b: Uint8Array, at: number): number {
  const layout = LAYOUTS[m.kind];
  const rest = Math.max(0, m.privateData.length - layout.privateBytes);
  b.fill(0, at, at + MAD_BYTES + ((rest + 3) & ~3));
  b.set([1, 7, 2, 3], at);
  new DataView(b.buffer, b.byteOffset).setBigUint64(at + 8, m.transaction);
  b[at + 17] = layout.attribute;
  const fields = m as unknown as Record<string, Value>;
  for (const row of layout.rows) putRow(b, at + 24, row, fields[row[0]]);
  b.set(m.privateData.subarray(0, layout.privateBytes), at + 24 + layout.privateAt);
  b.set(m.privateData.subarray(layout.privateBytes), at + MAD_BYTES);
  return MAD_BYTES + ((rest + 3) & ~3);
}

/**
 * Reads a MAD; undefined when it is none of these messages. Private data comes with the
 * full length of its kind, as the wire does not tell how much of it was meant.
 */
export function decodeCm(b: Uint8Array, at: number, end: number): CmMessage | undefined {
  if (end - at < MAD_BYTES || b[at] !== 1 || b[at + 1] !== 7 || b[at + 2] !== 2 || b[at + 3] !== 3) return undefined;
  const attribute = (b[at + 16] << 8) | b[at + 17];
  for (const kind of Object.keys(LAYOUTS) as CmKind[]) {
    const layout = LAYOUTS[kind];
    if (layout.attribute !== attribute) continue;
    const fields: Record<string, Value | string> = { kind };
    fields['transaction'] = new DataView(b.buffer, b.byteOffset).getBigUint64(at + 8);
    for (const row of layout.rows) fields[row[0]] = getRow(b, at + 24, row);
    const privateAt = at + 24 + layout.privateAt;
    const standard = b.slice(privateAt, privateAt + layout.privateBytes);
    fields['privateData'] = end - at > MAD_BYTES ? Buffer.concat([standard, b.subarray(at + MAD_BYTES, end)]) : standard;
    return fields as unknown as CmMessage;
  }
  return undefined;
}
