/** Two hosts on this machine: network namespaces joined by a virtual cable; what is started there has a process namespace of its own. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before } from 'node:test';

export interface TwoHosts {
  /** Why there are none here, or false. */
  readonly skip: string | false;
  readonly addresses: readonly [string, string];
  /** Words of `ip` that run what follows them on host 0 or 1. */
  inside(host: number): string[];
  /** Plugs the cable of host 0 in or out. */
  cable(state: 'up' | 'down'): void;
}

function ip(...words: string[]): boolean {
  return spawnSync('ip', words, { stdio: 'ignore' }).status === 0;
}

/** The kernel tells programs of a plugged cable up to a second later. */
function awaitCarrier(name: string): void {
  for (const deadline = performance.now() + 10_000; ; ) {
    const { stdout } = spawnSync('ip', ['-n', name, 'link', 'show', 'cable'], { encoding: 'utf8' });
    if (stdout.includes('state UP')) return;
    assert.ok(performance.now() < deadline, `the cable of ${name} is not up: ${stdout}`);
  }
}

/** Makes the hosts before the tests of this file and removes them afterwards. `network` is the third byte of their addresses: files run side by side. */
export function twoHosts(network: number): TwoHosts {
  const names = [0, 1].map((host) => `verbena-${network}-${host}-${process.pid}`);
  const addresses = [`10.231.${network}.1`, `10.231.${network}.2`] as const;
  const attempt = `${names[0]}-try`;
  const skip =
    process.getuid?.() !== 0
      ? 'network namespaces need root'
      : !(ip('netns', 'add', attempt) && ip('netns', 'del', attempt)) && 'this machine allows no network namespaces';
  before(() => {
    if (skip) return;
    for (const name of names) assert.ok(ip('netns', 'add', name));
    assert.ok(ip('link', 'add', 'cable', 'netns', names[0], 'type', 'veth', 'peer', 'name', 'cable', 'netns', names[1]));
    for (const [i, name] of names.entries()) {
      assert.ok(ip('-n', name, 'address', 'add', `${addresses[i]}/24`, 'dev', 'cable'));
      assert.ok(ip('-n', name, 'link', 'set', 'cable', 'up'));
      assert.ok(ip('-n', name, 'link', 'set', 'lo', 'up'));
    }
    for (const name of names) awaitCarrier(name);
  });
  after(() => {
    if (!skip) for (const name of names) ip('netns', 'del', name);
  });
  return {
    skip,
    addresses,
    inside: (host) => ['netns', 'exec', names[host], 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc'],
    cable: (state) => void ip('-n', names[0], 'link', 'set', 'cable', state),
  };
}

/** Signals what was started with the words of `inside`: it is the last of a row of processes. */
export function signalInside({ pid = 0 }: ChildProcess, signal: NodeJS.Signals): void {
  const childOf = (parent: number) => Number.parseInt(readFileSync(`/proc/${parent}/task/${parent}/children`, 'latin1'), 10);
  let last = pid;
  for (let next = childOf(pid); next > 0; next = childOf(next)) last = next;
  process.kill(last, signal);
}
