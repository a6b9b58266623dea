/** Where the time of a step goes: what of the exchange is seen after backward, and what backward hides. */
import type { BucketTimes } from './gradient-exchange.js';

/** Where the time of a step went at this rank, ms. */
export interface StepTimes {
  readonly totalMs: number;
  readonly forwardMs: number;
  readonly backwardMs: number;
  /** Exposed: after backward, waiting for a slower rank. */
  readonly waitMs: number;
  /** Exposed: after backward, moving and adding bytes. */
  readonly transferMs: number;
  readonly optimizerMs: number;
  /** Of the exchange, waiting left out, what was hidden behind backward. */
  readonly hiddenMs: number;
}

/** How much of the time after backward was waiting, and how much of the transfer backward hid. */
export function exposure(
  buckets: readonly BucketTimes[],
  backwardEndMs: number,
  exchangedMs: number,
): Pick<StepTimes, 'waitMs' | 'transferMs' | 'hiddenMs'> {
  const exposedMs = exchangedMs - backwardEndMs;
  const late = (fromMs: number, toMs: number) => Math.max(0, toMs - Math.max(fromMs, backwardEndMs));
  let waitMs = 0;
  let hiddenMs = 0;
  for (const { beganMs, metMs, endedMs } of buckets) {
    waitMs += late(beganMs, metMs);
    hiddenMs += endedMs - metMs - late(metMs, endedMs);
  }
  waitMs = Math.min(waitMs, exposedMs);
  return { waitMs, transferMs: exposedMs - waitMs, hiddenMs };
}
