/**
 * Where a RoCEv2 device is: an IP address, which is its GID, and a UDP port. 4791 is the one that kernels and hardware use; another port
 * lets several devices share an address, and travels in the address vector.
 */

import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { VerbsError } from '../../errors.js';
import { addressOfGid, parseGid, parseIp } from '../../ip-address.js';
import { type AddressVector, PATH_MTUS } from '../../qp-state.js';

/** The port of RoCEv2. */
export const ROCE_PORT = 4791;

/** Ports from here on are what other implementations send from, to spread flows; answers to those go to `ROCE_PORT`. */
const FIRST_FLOW_PORT = 0xc000;

/** Bytes of a packet that are not payload, at most: IPv6, UDP, BTH, the longest extension headers, ICRC. */
const OVERHEAD_BYTES = 40 + 8 + 12 + 28 + 4 + 4;

/** What 'roce:...' names. */
export interface LocalAddress {
  /** File of the network namespace, or '' for the one of this process. */
  readonly network: string;
  /** Numeric, with a scope number for link-local IPv6. */
  readonly host: string;
  /** 0: 4791 when it is free, else any. */
  readonly port: number;
  /** The largest path MTU that fits the interface, bytes. */
  readonly mtu: number;
}

/** The address and port that an address vector names. Throws VERBS_INVALID for what is none. */
export function endOf(av: AddressVector): { address: Uint8Array; port: number } {
  const gid = parseGid(av?.gid);
  const port = av?.port ?? ROCE_PORT;
  if (gid === undefined) {
    throw new VerbsError('VERBS_INVALID', `'${String(av?.gid)}' is no GID: give the av of a peer's address()`);
  }
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new VerbsError('VERBS_INVALID', `port must be 1 to 65535: got ${String(port)}`);
  }
  return { address: addressOfGid(gid), port };
}

/** Whether an address is that of a multicast group. */
export function isGroup(address: Uint8Array): boolean {
  return address.length === 4 ? address[0] >> 4 === 14 : address[0] === 0xff;
}

/**
 * The end that an address vector names, as a device with an address of this length reaches it. A group of IPv6 (ff..) is one of 239.0.0.0/8 among IPv4
 * devices: the last two bytes stay, the others are folded into one.
 */
export function endFrom(av: AddressVector, addressBytes: number): { address: Uint8Array; port: number } {
  const { address, port } = endOf(av);
  if (address.length !== 16 || addressBytes !== 4 || !isGroup(address)) return { address, port };
  const folded = address.subarray(1, 14).reduce((sum, byte) => sum ^ byte, 0);
  return { address: Uint8Array.of(239, folded, address[14], address[15]), port };
}

/** Where an answer goes to a packet that came from a port. */
export function answerPort(sourcePort: number): number {
  return sourcePort >= FIRST_FLOW_PORT ? ROCE_PORT : sourcePort;
}

function mtuOf(name: string): number {
  let bytes = 1500;
  try {
    bytes = Number(readFileSync(`/sys/class/net/${name}/mtu`, 'utf8'));
  } catch {
    // Not every container shows its interfaces; Ethernet's MTU is what every path carries.
  }
  return [...PATH_MTUS].reverse().find((mtu) => mtu + OVERHEAD_BYTES <= bytes) ?? PATH_MTUS[0];
}

/** What a path of Ethernet carries: for namespaces whose interfaces cannot be seen from here. */
const ETHERNET_MTU = 1024;

/**
 * Reads 'blue/10.0.0.1:5000': an address in the network namespace that `ip netns` calls 'blue'. It takes the right to enter it.
 */
function foreignAddress(text: string): LocalAddress | undefined {
  const match = /^([^/]+)\/\[?([^\]]+?)\]?(?::(\d+))?$/.exec(text);
  if (!match || parseIp(match[2]) === undefined) return undefined;
  return { network: `/run/netns/${match[1]}`, host: match[2], port: Number(match[3] ?? 0), mtu: ETHERNET_MTU };
}

/**
 * Reads 'eth0', '10.0.0.1', '10.0.0.1:5000', '[fd00::1]:5000', 'eth0:5000', or nothing for the loopback. Throws VERBS_NO_DEVICE with what
 * there is instead; an address that this host does not have is refused when the device is opened.
 */
export function localAddress(text: string | undefined): LocalAddress {
  const foreign = text === undefined ? undefined : foreignAddress(text);
  if (foreign) return foreign;
  const match = /^\[?([^\]]*?)\]?(?::(\d+))?$/.exec(text ?? '127.0.0.1');
  const whole = text !== undefined && isIPv6(text) ? text : undefined;
  const where = whole ?? match?.[1] ?? '';
  const port = whole ? 0 : Number(match?.[2] ?? 0);
  if (port >= FIRST_FLOW_PORT) {
    throw new VerbsError('VERBS_INVALID', `port ${port} is one that others send from: take one below ${FIRST_FLOW_PORT}`);
  }
  const interfaces = networkInterfaces();
  const wanted = parseIp(where);
  for (const [name, addresses = []] of Object.entries(interfaces)) {
    const usable = [...addresses].sort((a, b) => a.family.localeCompare(b.family));
    const found = wanted
      ? usable.find(({ address }) => Buffer.compare(parseIp(address) ?? new Uint8Array(), wanted) === 0)
      : name === where
        ? usable[0]
        : undefined;
    if (found === undefined) continue;
    const host = found.family === 'IPv6' && found.scopeid ? `${found.address}%${found.scopeid}` : found.address;
    return { network: '', host, port, mtu: mtuOf(name) };
  }
  // Node lists only interfaces that carry traffic now, and all of 127.0.0.0/8 is this host: the kernel decides when the socket is bound.
  if (wanted) return { network: '', host: where, port, mtu: wanted[0] === 127 ? mtuOf('lo') : ETHERNET_MTU };
  const known = Object.entries(interfaces).map(([name, list]) => `${name} (${list?.map((a) => a.address).join(', ')})`);
  throw new VerbsError('VERBS_NO_DEVICE', `no interface or address '${where}': this host has ${known.join('; ')}`);
}
