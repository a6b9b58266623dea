/** Which process this is, in a way that survives the reuse of its number, and which machine, in a way that containers cannot confuse. */

import { readFileSync, readlinkSync } from 'node:fs';

export interface ProcessIdentity {
  readonly pid: number;
  /** Ticks since boot. */
  readonly startTime: number;
}

/** Start time of a process, or undefined when there is none of this number or it is a zombie. */
function startTimeOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19]);
  } catch {
    return undefined;
  }
}

export function processIdentity(): ProcessIdentity {
  return { pid: process.pid, startTime: startTimeOf(process.pid) ?? 0 };
}

/** Whether that process still runs. */
export function isSameProcess({ pid, startTime }: ProcessIdentity): boolean {
  return startTimeOf(pid) === startTime;
}

let known: string | undefined;

/** Equal for processes that share a kernel, its processes and its network: among them shared memory works and a death shows in /proc. */
export function hostIdentity(): string {
  if (known === undefined) {
    const read = (get: () => string) => {
      try {
        return get().trim();
      } catch {
        return '?';
      }
    };
    const boot = read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
    known = [boot, ...['pid', 'net'].map((name) => read(() => readlinkSync(`/proc/self/ns/${name}`)))].join(' ');
  }
  return known;
}
