/** The limit of locked memory, which decides how much can be registered, in words. */

import { readFileSync } from 'node:fs';

/** Bytes that this process may lock, Infinity for no limit, undefined where the system does not say. */
export function lockedMemoryLimit(): number | undefined {
  try {
    const line = /^Max locked memory\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    if (line === null) return undefined;
    return line[1] === 'unlimited' ? Number.POSITIVE_INFINITY : Number(line[1]);
  } catch {
    return undefined;
  }
}

/** Whether this process may lock memory beyond the limit (CAP_IPC_LOCK). */
function mayExceed(): boolean {
  try {
    const line = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return line !== null && ((BigInt(`0x${line[1]}`) >> 14n) & 1n) === 1n;
  } catch {
    return false;
  }
}

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
