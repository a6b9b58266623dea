/** What every rank tells about itself when it joins, and what all ranks then know of each other. */

import type { Engine } from './engine.js';
import type { HostAddress } from './interfaces.js';

/** Where a rank runs, as the ranks tell it. Two ranks share a host when `id` is equal. */
export interface HostIdentity {
  /** Same for ranks that can share memory: boot of the kernel, process namespace, user, and the virtual host where there is one. */
  readonly id: string;
  /** The same without the virtual host. */
  readonly machine: string;
  /** Same for ranks on one kernel, in whatever containers. */
  readonly boot: string;
  /** Name for people. */
  readonly name: string;
  /** Index with `--virtual-hosts`, otherwise undefined. */
  readonly virtual?: number;
}

/** A NIC that can do RDMA, from /sys/class/infiniband. */
export interface Nic {
  readonly name: string;
  /** NUMA node it is attached to; -1: not known. */
  readonly numa: number;
  /** A port of it is active. */
  readonly active: boolean;
}

/** One rank of the world. */
export interface Member {
  readonly rank: number;
  readonly host: HostIdentity;
  readonly pid: number;
  /** Field 22 of /proc/PID/stat: with the pid it names one process for ever. */
  readonly startTime: number;
  /** NUMA node that its CPUs belong to; -1: several. */
  readonly numa: number;
  readonly nics: readonly Nic[];
  /** Network addresses of its host, best first. */
  readonly addresses: readonly HostAddress[];
  /** What VERBENA_ENGINE asks for. */
  readonly engine: Engine | 'auto';
  readonly node: string;
}

/** 'rank 3 (pid 4711 on worker-2)' */
export function nameOf(member: Pick<Member, 'rank' | 'pid' | 'host'>): string {
  return `rank ${member.rank} (pid ${member.pid} on ${member.host.name})`;
}

/** '0, 2-4, 9': ranks as people write them. */
export function rankList(ranks: Iterable<number>): string {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let last = i;
    while (sorted[last + 1] === sorted[last] + 1) last++;
    parts.push(last - i >= 2 ? `${sorted[i]}-${sorted[last]}` : sorted.slice(i, last + 1).join(', '));
    i = last + 1;
  }
  return parts.join(', ');
}

/** 'rank 3', 'ranks 0, 2-4', 'nobody' */
export function ranksInWords(ranks: Iterable<number>): string {
  const all = [...ranks];
  if (all.length === 0) return 'nobody';
  return `${all.length === 1 ? 'rank' : 'ranks'} ${rankList(all)}`;
}
