/** Whether this machine has so much else to do that a bound on time says nothing about the program under test. */

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** More than three times as many threads want to run as there are cores: over the last minute, or now. */
export function isBusy(): boolean {
  const [average, , , runnable] = readFileSync('/proc/loadavg', 'utf8').split(' ');
  return Math.max(Number(average), Number(runnable.split('/')[0])) > 3 * availableParallelism();
}
