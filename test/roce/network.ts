/**
 * Two network namespaces joined by a veth pair, made for one test and removed after it; random loss by nftables.
 *
 *     vb-<pid>-a  10.91.0.1, fd91::1  ──veth──  10.91.0.2, fd91::2  vb-<pid>-b
 */

import { spawnSync } from 'node:child_process';

/** Addresses of the two ends. */
export const NETWORK_ADDRESSES = ['10.91.0.1', '10.91.0.2'] as const;
export const NETWORK_ADDRESSES_6 = ['fd91::1', 'fd91::2'] as const;

function run(...command: string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command[0], command.slice(1), { encoding: 'utf8' });
  return status === 0 ? undefined : `${command.join(' ')}: ${error?.message ?? stderr.trim()}`;
}

let made = 0;

export class VethNetwork {
  /** Names of the namespaces, as `ip netns` knows them. */
  readonly names: readonly [string, string];

  private constructor(names: readonly [string, string]) {
    this.names = names;
  }

  /** Makes it; or says why this machine cannot. */
  static make(mtu = 1500): VethNetwork | string {
    if (process.getuid?.() !== 0) return 'network namespaces need root';
    made++;
    const names = [`vb-${process.pid}-${made}a`, `vb-${process.pid}-${made}b`] as const;
    const network = new VethNetwork(names);
    const fault =
      run('ip', 'netns', 'add', names[0]) ??
      run('ip', 'netns', 'add', names[1]) ??
      run('ip', '-n', names[0], 'link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth0', 'netns', names[1]) ??
      names
        .flatMap((name, i) => [
          run('ip', '-n', name, 'address', 'add', `${NETWORK_ADDRESSES[i]}/24`, 'dev', 'veth0'),
          run('ip', '-n', name, 'address', 'add', `${NETWORK_ADDRESSES_6[i]}/64`, 'dev', 'veth0', 'nodad'),
          run('ip', '-n', name, 'link', 'set', 'dev', 'veth0', 'mtu', String(mtu)),
          run('ip', '-n', name, 'link', 'set', 'veth0', 'up'),
          run('ip', '-n', name, 'link', 'set', 'lo', 'up'),
        ])
        .find((reason) => reason !== undefined) ??
      network.awaitCarrier();
    if (fault === undefined) return network;
    network.remove();
    return fault;
  }

  /** A cable that was plugged in a moment ago does not carry yet. Returns why it never does, or undefined. */
  private awaitCarrier(): string | undefined {
    for (let look = 0; look < 200; look++) {
      const carries = (name: string) =>
        spawnSync('ip', ['-n', name, '-o', 'link', 'show', 'veth0'], { encoding: 'utf8' }).stdout.includes('state UP');
      if (this.names.every(carries)) return undefined;
      spawnSync('sleep', ['0.05']);
    }
    return 'the veth pair does not come up';
  }

  /** From now on packets that arrive at either end are lost at random, percent. Returns why not, or undefined. */
  lose(percent: number): string | undefined {
    for (const name of this.names) {
      const rules = [
        'add table inet loss',
        'add chain inet loss input { type filter hook input priority 0; }',
        `add rule inet loss input meta l4proto udp numgen random mod 1000 < ${Math.round(percent * 10)} drop`,
      ].join('; ');
      const fault = run('ip', 'netns', 'exec', name, 'nft', rules);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  /** Plugs the cable of the first end in or out. */
  cable(state: 'up' | 'down'): void {
    run('ip', '-n', this.names[0], 'link', 'set', 'veth0', state);
  }

  remove(): void {
    for (const name of this.names) run('ip', 'netns', 'delete', name);
  }
}
