/** Bounds on time for a machine that may have much else to do. */

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const lateness = monitorEventLoopDelay();
lateness.enable();

/** More than three times as many threads want to run as there are cores: over the last minute, or now. */
function isBusy(): boolean {
  const [average, , , runnable] = readFileSync('/proc/loadavg', 'utf8').split(' ');
  return Math.max(Number(average), Number(runnable.split('/')[0])) > 3 * availableParallelism();
}

/** A dead peer is noticed within a second on one host, milliseconds here. On a busy machine its turn comes later, as do the timers of this process. */
export function noticeLimitMs(): number {
  return isBusy() ? 10_000 : 1000 + (4 * lateness.max) / 1e6;
}
