/**
 * Which network address a host should be reached at, with reasons.
 *
 * Loopback, addresses that only one link knows and bridges of containers are of no use to another host; a fast RDMA port is best. `VERBENA_INTERFACE` (a
 * name such as eth1, or a prefix such as 10.1.0.0/16) overrules the order. The choice is data, so that a connectivity test can say which address of which host failed.
 */

import { BlockList, isIPv6 } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { LaunchError } from './errors.js';

/** An address of a network interface of this host. */
export interface HostAddress {
  readonly interface: string;
  readonly address: string;
}

/** One address that was looked at. */
export interface AddressCandidate extends HostAddress {
  /** Smaller is better; undefined: not used. */
  readonly order: number | undefined;
  /** Why it stands where it does. */
  readonly why: string;
}

/** Virtual bridges and tunnels of containers and virtual machines: other hosts seldom reach what is behind them. */
const CONTAINER_BRIDGES = /^(docker|br-|virbr|veth|cni|flannel|cali|podman|lxc|lxd)/;

function weigh(name: string, info: NetworkInterfaceInfo): [order: number | undefined, why: string] {
  if (info.internal) return [undefined, 'loopback: only this host reaches it'];
  if (info.family === 'IPv6' && info.address.toLowerCase().startsWith('fe80:'))
    return [undefined, 'link-local: valid on one link only'];
  if (info.family === 'IPv4' && info.address.startsWith('169.254.')) return [undefined, 'link-local: no address was assigned'];
  if (CONTAINER_BRIDGES.test(name)) return [40, 'bridge of containers: other hosts seldom reach it'];
  if (/^ib/.test(name)) return [0, 'InfiniBand interface'];
  if (info.family === 'IPv6') return [20, 'global IPv6 address'];
  return [10, 'IPv4 address'];
}

/** Whether an address is chosen by `eth1` or `10.1.0.0/16`. */
function matches(wanted: string, candidate: HostAddress): boolean {
  if (wanted === candidate.interface || wanted === candidate.address) return true;
  const [net, bits] = wanted.split('/');
  if (bits === undefined) return false;
  const list = new BlockList();
  try {
    list.addSubnet(net, Number(bits), isIPv6(net) ? 'ipv6' : 'ipv4');
  } catch {
    throw new LaunchError(
      'LAUNCH_ENVIRONMENT',
      `VERBENA_INTERFACE=${wanted} is neither an interface nor a prefix: give a name as in eth1, or a prefix as in 10.1.0.0/16`,
    );
  }
  return list.check(candidate.address, isIPv6(candidate.address) ? 'ipv6' : 'ipv4');
}

/**
 * All addresses, best first, with reasons.
 * @param wanted an interface, an address or a prefix that must be used; default: the order decides
 * @throws LAUNCH_ENVIRONMENT when nothing here matches `wanted`
 */
export function explainAddresses(
  wanted?: string,
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): AddressCandidate[] {
  const all: AddressCandidate[] = [];
  for (const [name, infos] of Object.entries(interfaces)) {
    for (const info of infos ?? []) {
      const candidate = { interface: name, address: info.address };
      if (wanted === undefined) {
        const [order, why] = weigh(name, info);
        all.push({ ...candidate, order, why });
      } else {
        const chosen = matches(wanted, candidate);
        all.push({ ...candidate, order: chosen ? 0 : undefined, why: chosen ? `asked for by '${wanted}'` : `not '${wanted}'` });
      }
    }
  }
  if (wanted !== undefined && all.every(({ order }) => order === undefined)) {
    const known = all.map(({ interface: name, address }) => `${name} ${address}`).join(', ');
    throw new LaunchError('LAUNCH_ENVIRONMENT', `this host has no interface or address '${wanted}': it has ${known}`);
  }
  return all.sort((a, b) => (a.order ?? 99) - (b.order ?? 99));
}

/** The addresses other hosts may use, best first. */
export function usableAddresses(candidates: readonly AddressCandidate[]): HostAddress[] {
  return candidates
    .filter(({ order }) => order !== undefined)
    .map(({ interface: name, address }) => ({ interface: name, address }));
}
