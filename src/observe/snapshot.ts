/** What one can see of a device from outside its process, at one moment. */

import type { CounterTotals } from './counters.js';

/** A queue pair of a device, as its counters stand now. */
export interface QueuePairSnapshot {
  readonly qpNum: number;
  /** 'RC', 'UD', ... */
  readonly type: string;
  /** 'RTS', 'ERR', ... */
  readonly state: string;
  /** Queue pair number at the other end, for connected types. */
  readonly destination?: number;
  readonly counters: CounterTotals;
}

export interface CompletionQueueSnapshot {
  readonly cqNum: number;
  readonly depth: number;
  /** Completions polled (operations), their bytes, errors, wake-ups (systemCalls). */
  readonly counters: CounterTotals;
}

/** An open device of some process, as its counters stand now. */
export interface DeviceSnapshot {
  readonly provider: string;
  readonly pid: number;
  /** Name given to openDevice. */
  readonly name: string;
  /** The same for two readings of one device, and different for two devices. */
  readonly key: string;
  /** Bytes of shared memory that it holds. */
  readonly segmentBytes: number;
  readonly queuePairs: readonly QueuePairSnapshot[];
  readonly completionQueues: readonly CompletionQueueSnapshot[];
  /** What its transport counts by name: packets, repetitions, drops by reason. Absent where there are no packets. */
  readonly transport?: Readonly<Record<string, number>>;
  /** Totals, closed queue pairs included. */
  readonly counters: CounterTotals;
}
