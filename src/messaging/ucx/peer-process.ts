/**
 * Which process a worker on UCX belongs to. UCX notices the death of a peer over a network; its shared memory transports do not, and cannot be used with that at
 * all (UCX 1.13). So peers of the same kernel and network are connected without it, and their processes are watched here.
 */

import { readFileSync, readlinkSync } from 'node:fs';

/** Start time of a process in ticks since boot, or undefined when there is none of this number or it is a zombie. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

let own: string | undefined;

/** 'host/pid/start': the host is equal for processes that share a kernel, its processes and its network. */
export function processName(): string {
  if (own === undefined) {
    const read = (get: () => string): string => {
      try {
        return get().trim();
      } catch {
        return '?';
      }
    };
    const boot = read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'));
    const spaces = ['pid', 'net'].map((name) => read(() => readlinkSync(`/proc/self/ns/${name}`)).replace(/\D/g, ''));
    own = `${boot}.${spaces.join('.')}/${process.pid}/${startTimeOf(process.pid) ?? 0}`;
  }
  return own;
}

export function isSameHost(name: string): boolean {
  return name.split('/')[0] === processName().split('/')[0];
}

/** Whether a process of this host still runs. */
export function isAlive(name: string): boolean {
  const [, pid, start] = name.split('/');
  return startTimeOf(Number(pid)) === start;
}
