/**
 * Counters: totals since an object was made, kept in shared memory by whoever does the work, so that another process can read them at any
 * time, even while the owner is blocked in a loop. A rate is the difference of two readings.
 */

/** Totals of a device or a queue pair. */
export interface CounterTotals {
  /** Send requests carried out: SEND, WRITE, READ, atomics. */
  readonly operations: number;
  /** Their payload. */
  readonly bytes: number;
  /** Bytes that a CPU copied on this side. */
  readonly bytesCopied: number;
  /** System calls made for them. */
  readonly systemCalls: number;
  /** Requests that failed. */
  readonly errors: number;
  /** Messages received. */
  readonly received: number;
  readonly receivedBytes: number;
}

const NAMES: readonly (keyof CounterTotals)[] = [
  'operations',
  'bytes',
  'bytesCopied',
  'systemCalls',
  'errors',
  'received',
  'receivedBytes',
];

/** Counters that stand at 0. */
export const ZERO_COUNTERS: CounterTotals = {
  operations: 0,
  bytes: 0,
  bytesCopied: 0,
  systemCalls: 0,
  errors: 0,
  received: 0,
  receivedBytes: 0,
};

function combine(act: (name: keyof CounterTotals) => number): CounterTotals {
  return Object.fromEntries(NAMES.map((name) => [name, act(name)])) as unknown as CounterTotals;
}

/** Both together. */
export function addCounters(a: CounterTotals, b: CounterTotals): CounterTotals {
  return combine((name) => a[name] + b[name]);
}

/** Per second, from two readings `seconds` apart. A counter that went back (the object was replaced) counts from zero. */
export function counterRates(before: CounterTotals, after: CounterTotals, seconds: number): CounterTotals {
  return combine((name) => (after[name] >= before[name] ? after[name] - before[name] : after[name]) / seconds);
}
