/** The limit of locked memory, which decides how much can be registered, in words. */

import { readFileSync } from 'node:fs';

/** A file of /proc, undefined where there is none. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Bytes that this process may lock, Infinity for no limit, undefined where the system does not say. @param limits text of /proc/self/limits */
export function lockedMemoryLimit(limits = textOf('/proc/self/limits')): number | undefined {
  const soft = /^Max locked memory\s+(\S+)/m.exec(limits ?? '')?.[1];
  return soft === undefined ? undefined : soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

/** Whether this process may lock memory beyond the limit (CAP_IPC_LOCK). */
function mayExceed(): boolean {
  const bits = /^CapEff:\s*([0-9a-f]+)$/m.exec(textOf('/proc/self/status') ?? '')?.[1];
  return bits !== undefined && ((BigInt(`0x${bits}`) >> 14n) & 1n) === 1n;
}

/** A NIC pins what is registered; below this, programs fail at their second buffer. */
const ENOUGH = 2 ** 30;

/** What the limit means for registering memory, one sentence; `isLow` when it will be in the way. */
export function lockedMemoryWords(limit = lockedMemoryLimit(), exceeds = mayExceed()): { isLow: boolean; words: string } {
  if (limit === undefined) return { isLow: false, words: 'the limit of locked memory is not known here' };
  if (limit === Number.POSITIVE_INFINITY) return { isLow: false, words: 'locked memory is unlimited' };
  const size = limit >= 2 ** 20 ? `${Math.round(limit / 2 ** 20)} MiB` : `${Math.round(limit / 1024)} KiB`;
  if (exceeds) return { isLow: false, words: `locked memory is limited to ${size}, but this user may exceed it (CAP_IPC_LOCK)` };
  const advice =
    "'ulimit -l unlimited', or 'memlock unlimited' in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container";
  return {
    isLow: limit < ENOUGH,
    words: `no more than ${size} of memory can be registered at a time${limit < ENOUGH ? `: raise it with ${advice}` : ''}`,
  };
}
