/**
 * Looking into the contexts of this user from outside: what `verbena top` shows. Reads their control segments; the processes may be blocked.
 */

import { closeSync, fstatSync, openSync } from 'node:fs';
import { openDoor } from '../../../native/door.js';
import { type CounterTotals, ZERO_COUNTERS } from '../../../observe/counters.js';
import { QP_TYPES, type QpType } from '../../opcode.js';
import { QP_STATES, type QpState } from '../../qp-state.js';
import {
  CONTROL_BYTES,
  COUNTER_NAMES,
  COUNTERS,
  CQ_COUNTER_NAMES,
  CQ_COUNTERS_F64,
  CQ_DEPTH,
  CQ_WORDS,
  CQS,
  H_CQ_HIGH,
  H_ID_HI,
  H_ID_LO,
  H_MAGIC,
  H_NAME_LENGTH,
  H_PID,
  H_QP_HIGH,
  H_RETIRED_F64,
  H_SEGMENT_BYTES_F64,
  H_STATE,
  H_THREAD,
  H_VERSION,
  MAGIC,
  NAME_BYTE,
  QP_COUNTERS_F64,
  QP_DEST,
  QP_STATE,
  QP_TYPE,
  QP_WORDS,
  QPS,
  STATE_LIVE,
  VERSION,
} from './layout.js';
import { findContexts } from './multicast.js';
import { Segment } from './segment.js';

export interface QpView {
  readonly qpNum: number;
  readonly type: QpType;
  readonly state: QpState;
  readonly destQpNum: number;
  readonly counters: CounterTotals;
}

export interface CqView {
  readonly cqNum: number;
  readonly depth: number;
  /** Completions polled (operations), their bytes, errors, wake-ups (systemCalls). */
  readonly counters: CounterTotals;
}

export interface ContextView {
  /** Unique on this host, for as long as the context lives. */
  readonly id: string;
  readonly pid: number;
  readonly threadId: number;
  readonly name: string;
  /** Bytes of shared segments it holds: arena and receive rings. */
  readonly segmentBytes: number;
  readonly queuePairs: readonly QpView[];
  readonly completionQueues: readonly CqView[];
  /** All queue pairs together, the closed ones included. */
  readonly totals: CounterTotals;
}

function readCounters(f64: Float64Array, at: number): CounterTotals {
  const { copiedOut, ...named } = Object.fromEntries(COUNTER_NAMES.map((name, i) => [name, f64[at + i]])) as Record<
    (typeof COUNTER_NAMES)[number],
    number
  >;
  return { ...named, bytesCopied: named.bytes + copiedOut };
}

/** Everything that stands in a control segment, or undefined when it is none any more. */
function readContext(pid: number, fd: number): ContextView | undefined {
  let handle: number;
  try {
    handle = openSync(`/proc/${pid}/fd/${fd}`, 'r');
  } catch {
    return undefined;
  }
  const door = openDoor();
  try {
    if (fstatSync(handle).size < CONTROL_BYTES) return undefined;
    const segment = new Segment(door, handle, 0, CONTROL_BYTES, false, false);
    try {
      return view(segment);
    } finally {
      segment.close(door);
    }
  } finally {
    closeSync(handle);
  }
}

function view(segment: Segment): ContextView | undefined {
  const { i32, f64, u8 } = segment;
  if (i32[H_MAGIC] !== MAGIC || i32[H_VERSION] !== VERSION || i32[H_STATE] !== STATE_LIVE) return undefined;
  const queuePairs: QpView[] = [];
  const totals = new Float64Array(COUNTERS);
  totals.set(f64.subarray(H_RETIRED_F64, H_RETIRED_F64 + COUNTERS));
  for (let qpNum = 0; qpNum < i32[H_QP_HIGH]; qpNum++) {
    const at = QPS + qpNum * QP_WORDS;
    const word = Atomics.load(i32, at + QP_STATE);
    if (word === 0) continue;
    const counters = (at >> 1) + QP_COUNTERS_F64;
    for (let c = 0; c < COUNTERS; c++) totals[c] += f64[counters + c];
    queuePairs.push({
      qpNum,
      type: QP_TYPES[i32[at + QP_TYPE]],
      state: QP_STATES[(word & 15) - 1],
      destQpNum: i32[at + QP_DEST],
      counters: readCounters(f64, counters),
    });
  }
  const completionQueues: CqView[] = [];
  for (let cqNum = 0; cqNum < i32[H_CQ_HIGH]; cqNum++) {
    const at = CQS + cqNum * CQ_WORDS;
    const depth = i32[at + CQ_DEPTH];
    if (depth === 0) continue;
    const counters = CQ_COUNTER_NAMES.map((name, i) => [name, f64[(at >> 1) + CQ_COUNTERS_F64 + i]]);
    completionQueues.push({ cqNum, depth, counters: { ...ZERO_COUNTERS, ...Object.fromEntries(counters) } });
  }
  return {
    id: `${i32[H_PID]}:${(i32[H_ID_HI] >>> 0).toString(16)}${(i32[H_ID_LO] >>> 0).toString(16).padStart(8, '0')}`,
    completionQueues,
    pid: i32[H_PID],
    threadId: i32[H_THREAD],
    name: new TextDecoder().decode(u8.slice(NAME_BYTE, NAME_BYTE + i32[H_NAME_LENGTH])),
    segmentBytes: f64[H_SEGMENT_BYTES_F64],
    queuePairs,
    totals: readCounters(totals, 0),
  };
}

/** All live contexts of this user on this host. */
export function readContexts(): ContextView[] {
  return findContexts().flatMap(({ pid, fd }) => readContext(pid, fd) ?? []);
}
