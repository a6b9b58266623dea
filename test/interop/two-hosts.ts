/** Two hosts on this machine: network namespaces joined by a virtual cable; what is started there has a process namespace of its own. */

import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after } from 'node:test';
import { NETWORK_ADDRESSES, VethNetwork } from '../roce/network.js';

export interface TwoHosts {
  /** Why there are none here, or false. */
  readonly skip: string | false;
  readonly addresses: readonly [string, string];
  /** Words of `ip` that run what follows them on host 0 or 1. */
  inside(host: number): string[];
  /** Plugs the cable of host 0 in or out. */
  cable(state: 'up' | 'down'): void;
}

/** Makes the hosts for the tests of this file and removes them afterwards. */
export function twoHosts(): TwoHosts {
  const made = VethNetwork.make();
  const network = typeof made === 'string' ? undefined : made;
  after(() => network?.remove());
  return {
    skip: typeof made === 'string' && made,
    addresses: NETWORK_ADDRESSES,
    inside: (host) => [
      ...['netns', 'exec', network?.names[host] ?? ''],
      ...['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'],
    ],
    cable: (state) => network?.cable(state),
  };
}

/** Signals what was started with the words of `inside`: it is the last of a row of processes. */
export function signalInside({ pid = 0 }: ChildProcess, signal: NodeJS.Signals): void {
  const childOf = (parent: number) => Number.parseInt(readFileSync(`/proc/${parent}/task/${parent}/children`, 'latin1'), 10);
  let last = pid;
  for (let next = childOf(pid); next > 0; next = childOf(next)) last = next;
  process.kill(last, signal);
}
