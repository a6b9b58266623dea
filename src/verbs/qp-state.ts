/**
 * The queue pair state machine as data: which transitions exist, which attributes each requires and which it allows.
 *
 * ```
 *   RESET ──> INIT ──> RTR ──> RTS <──> SQD          any state ──> ERR, any state ──> RESET
 *                                └─(error of a UC/UD send)─> SQE ──> RTS
 * ```
 * The required attributes are those of ibv_modify_qp(3); the optional ones those of the InfiniBand specification's table as the
 * Linux kernel applies it. DCI and DCT follow mlx5dv: a DCI needs no destination (each request names one), a DCT ends in RTR.
 * Every cell is a generated test.
 */

import type { QpType } from './opcode.js';

export type QpState = 'RESET' | 'INIT' | 'RTR' | 'RTS' | 'SQD' | 'SQE' | 'ERR';

/** Numeric codes of states; 0 is left free for "no such queue pair". Append only. */
export const QP_STATES: readonly QpState[] = ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR'];

/** Where a peer is: what libibverbs calls the address vector. */
export interface AddressVector {
  /** GID of the peer's port, IPv6 text form. */
  gid: string;
  /** UDP port of a roce peer that does not use 4791. */
  port?: number;
  /** LID of the peer's port on InfiniBand, 1..65535. */
  lid?: number;
}

/** Attributes of ibv_modify_qp under their libibverbs names, spelled as TypeScript. */
export interface QpAttributes {
  /** Index into the partition key table. Range 0..65535; 0 is the default partition. */
  pkeyIndex?: number;
  /** Port of the device, 1..255. */
  port?: number;
  /** Rights of the remote side on this queue pair: bits of access.ts. */
  accessFlags?: number;
  /** Q_Key of UD, 32 bits. */
  qkey?: number;
  /** Address of the peer (IBV_QP_AV). */
  av?: AddressVector;
  /** Path MTU in bytes: 256, 512, 1024, 2048 or 4096. */
  pathMtu?: number;
  /** Queue pair number of the peer, 24 bits. */
  destQpNum?: number;
  /** Packet sequence number expected first, 24 bits. */
  rqPsn?: number;
  /** Packet sequence number sent first, 24 bits. */
  sqPsn?: number;
  /** READs and atomics outstanding as initiator, 0..255. */
  maxRdAtomic?: number;
  /** READs and atomics accepted as responder, 0..255. */
  maxDestRdAtomic?: number;
  /** Code of the time to wait after "receiver not ready", 0..31; see RNR_TIMER_US. */
  minRnrTimer?: number;
  /** Acknowledge timeout: 4.096 us x 2^timeout, 0..31; 0 is endless. */
  timeout?: number;
  /** Retries after a timeout, 0..7. */
  retryCnt?: number;
  /** Retries after "receiver not ready", 0..7; 7 is endless. */
  rnrRetry?: number;
  /** The state the caller believes the queue pair is in; refused when it is another. */
  curState?: QpState;
  /** On the way to SQD: ask for the SQ_DRAINED event. */
  enSqdAsyncNotify?: boolean;
}

/** Names of the attributes that a transition may set. */
export type QpAttribute = keyof QpAttributes;

/** One transition of one type. */
export interface Transition {
  readonly from: QpState;
  readonly to: QpState;
  readonly type: QpType;
  readonly required: readonly QpAttribute[];
  readonly optional: readonly QpAttribute[];
}

type Rows = Readonly<Record<string, readonly [required: readonly QpAttribute[], optional: readonly QpAttribute[]]>>;

const RC: Rows = {
  'RESET>INIT': [['pkeyIndex', 'port', 'accessFlags'], []],
  'INIT>INIT': [[], ['pkeyIndex', 'port', 'accessFlags']],
  'INIT>RTR': [
    ['av', 'pathMtu', 'destQpNum', 'rqPsn', 'maxDestRdAtomic', 'minRnrTimer'],
    ['accessFlags', 'pkeyIndex'],
  ],
  'RTR>RTS': [
    ['sqPsn', 'maxRdAtomic', 'retryCnt', 'rnrRetry', 'timeout'],
    ['curState', 'accessFlags', 'minRnrTimer'],
  ],
  'RTS>RTS': [[], ['curState', 'accessFlags', 'minRnrTimer']],
  'RTS>SQD': [[], ['enSqdAsyncNotify']],
  'SQD>RTS': [[], ['curState', 'accessFlags', 'minRnrTimer']],
  'SQD>SQD': [
    [],
    [
      'pkeyIndex',
      'port',
      'av',
      'timeout',
      'retryCnt',
      'rnrRetry',
      'maxRdAtomic',
      'maxDestRdAtomic',
      'accessFlags',
      'minRnrTimer',
    ],
  ],
};

const UC: Rows = {
  'RESET>INIT': [['pkeyIndex', 'port', 'accessFlags'], []],
  'INIT>INIT': [[], ['pkeyIndex', 'port', 'accessFlags']],
  'INIT>RTR': [
    ['av', 'pathMtu', 'destQpNum', 'rqPsn'],
    ['accessFlags', 'pkeyIndex'],
  ],
  'RTR>RTS': [['sqPsn'], ['curState', 'accessFlags']],
  'RTS>RTS': [[], ['curState', 'accessFlags']],
  'RTS>SQD': [[], ['enSqdAsyncNotify']],
  'SQD>RTS': [[], ['curState', 'accessFlags']],
  'SQD>SQD': [[], ['av', 'pkeyIndex', 'accessFlags']],
  'SQE>RTS': [[], ['curState', 'accessFlags']],
};

const UD: Rows = {
  'RESET>INIT': [['pkeyIndex', 'port', 'qkey'], []],
  'INIT>INIT': [[], ['pkeyIndex', 'port', 'qkey']],
  'INIT>RTR': [[], ['pkeyIndex', 'qkey']],
  'RTR>RTS': [['sqPsn'], ['curState', 'qkey']],
  'RTS>RTS': [[], ['curState', 'qkey']],
  'RTS>SQD': [[], ['enSqdAsyncNotify']],
  'SQD>RTS': [[], ['curState', 'qkey']],
  'SQD>SQD': [[], ['pkeyIndex', 'qkey']],
  'SQE>RTS': [[], ['curState', 'qkey']],
};

const DCI: Rows = {
  'RESET>INIT': [['pkeyIndex', 'port'], []],
  'INIT>INIT': [[], ['pkeyIndex', 'port']],
  'INIT>RTR': [['pathMtu'], ['pkeyIndex']],
  'RTR>RTS': [['sqPsn', 'maxRdAtomic', 'retryCnt', 'rnrRetry', 'timeout'], ['curState']],
  'RTS>RTS': [[], ['curState']],
  'RTS>SQD': [[], ['enSqdAsyncNotify']],
  'SQD>RTS': [[], ['curState']],
  'SQD>SQD': [[], ['timeout', 'retryCnt', 'rnrRetry', 'maxRdAtomic']],
};

const DCT: Rows = {
  'RESET>INIT': [['pkeyIndex', 'port', 'accessFlags'], []],
  'INIT>INIT': [[], ['pkeyIndex', 'port', 'accessFlags']],
  'INIT>RTR': [
    ['pathMtu', 'minRnrTimer'],
    ['maxDestRdAtomic', 'accessFlags'],
  ],
};

const TABLE: Readonly<Record<QpType, Rows>> = { RC, UC, UD, DCI, DCT };

/** The transition of a type from one state to another, or undefined when there is none. */
export function findTransition(type: QpType, from: QpState, to: QpState): Transition | undefined {
  if (to === 'RESET' || to === 'ERR') return { from, to, type, required: [], optional: [] };
  const row = TABLE[type][`${from}>${to}`];
  return row && { from, to, type, required: row[0], optional: row[1] };
}

/** Every legal transition of a type, for generated tests and documentation. */
export function transitionsOf(type: QpType): Transition[] {
  return QP_STATES.flatMap((from) => QP_STATES.flatMap((to) => findTransition(type, from, to) ?? []));
}

interface Range {
  readonly low: number;
  readonly high: number;
  readonly what: string;
}

const RANGES: Readonly<Partial<Record<QpAttribute, Range>>> = {
  pkeyIndex: { low: 0, high: 65535, what: 'an index into the partition key table' },
  port: { low: 1, high: 255, what: 'a port number of the device' },
  accessFlags: { low: 0, high: 127, what: 'access bits' },
  qkey: { low: 0, high: 0xffffffff, what: 'a 32-bit Q_Key' },
  destQpNum: { low: 0, high: 0xffffff, what: 'a 24-bit queue pair number' },
  rqPsn: { low: 0, high: 0xffffff, what: 'a 24-bit sequence number' },
  sqPsn: { low: 0, high: 0xffffff, what: 'a 24-bit sequence number' },
  maxRdAtomic: { low: 0, high: 255, what: 'a number of outstanding READs' },
  maxDestRdAtomic: { low: 0, high: 255, what: 'a number of outstanding READs' },
  minRnrTimer: { low: 0, high: 31, what: 'a code of the RNR timer table' },
  timeout: { low: 0, high: 31, what: 'an exponent: 4.096 us x 2^timeout' },
  retryCnt: { low: 0, high: 7, what: 'a retry count' },
  rnrRetry: { low: 0, high: 7, what: 'a retry count, 7 for endless' },
};

/** Path MTUs the specification knows, in bytes. */
export const PATH_MTUS: readonly number[] = [256, 512, 1024, 2048, 4096];

/** Why attributes do not fit a transition: a sentence that names the rule, or undefined when they fit. */
export function transitionFault(type: QpType, from: QpState, to: QpState, attributes: QpAttributes): string | undefined {
  const transition = findTransition(type, from, to);
  if (!transition) {
    const next = transitionsOf(type).filter((t) => t.from === from);
    const names = [...new Set(next.map((t) => t.to))].join(', ');
    return `a ${type} queue pair cannot go from ${from} to ${to}: from ${from} it can go to ${names}`;
  }
  for (const name of transition.required) {
    if (attributes[name] === undefined) {
      return `${type} ${from} to ${to} requires ${transition.required.join(', ')}: ${name} is missing`;
    }
  }
  for (const [name, value] of Object.entries(attributes) as [QpAttribute, unknown][]) {
    if (value === undefined) continue;
    if (!transition.required.includes(name) && !transition.optional.includes(name)) {
      const all = [...transition.required, ...transition.optional].join(', ') || 'no attribute';
      return `${type} ${from} to ${to} does not take ${name}: it takes ${all}`;
    }
    const range = RANGES[name];
    if (range && !(Number.isInteger(value) && (value as number) >= range.low && (value as number) <= range.high)) {
      return `${name} must be ${range.what}, ${range.low} to ${range.high}: got ${String(value)}`;
    }
    if (name === 'pathMtu' && !PATH_MTUS.includes(value as number)) {
      return `pathMtu must be ${PATH_MTUS.join(', ')} bytes: got ${String(value)}`;
    }
    if (name === 'curState' && value !== from) return `curState says ${String(value)}, but the queue pair is in ${from}`;
    if (name === 'av' && typeof (value as AddressVector).gid !== 'string') return "av needs the peer's gid";
  }
  return undefined;
}

/** Times of the RNR timer codes in microseconds (InfiniBand specification, table of RNR NAK timers). */
export const RNR_TIMER_US: readonly number[] = [
  655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360, 20480,
  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
];

/** Acknowledge timeout of a timeout code in microseconds; Infinity for 0. */
export function ackTimeoutUs(code: number): number {
  return code === 0 ? Number.POSITIVE_INFINITY : 4.096 * 2 ** code;
}
