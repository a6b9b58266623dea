/**
 * Which RDMA devices there are, and which port, GID and partition key of them a program gets, with the reasons.
 *
 *     'mlx5_0'   'mlx5_0:2'   'mlx5_0:2?gid=3&pkey=0x8001&sl=3&tc=106'          nothing: the best port of all devices
 */

import { readdirSync, readFileSync } from 'node:fs';
import { constants, networkInterfaces } from 'node:os';
import { VerbsError } from '../../errors.js';
import { addressOfGid, gidText, ipText } from '../../ip-address.js';
import { systemError } from '../../system-error.js';
import type { IbverbsAddon } from './addon.js';

export interface GidInfo {
  readonly index: number;
  /** 0 InfiniBand or iWARP, 1 RoCE v1, 2 RoCE v2. */
  readonly type: number;
  /** Index of the network interface, 0 for none. */
  readonly interface: number;
  /** 32 hex digits. */
  readonly gid: string;
}

export interface PortInfo {
  readonly number: number;
  /** 1 down, 2 initialising, 3 armed, 4 active. */
  readonly state: number;
  /** 1 InfiniBand, 2 Ethernet. */
  readonly linkLayer: number;
  readonly maxMtu: number;
  readonly activeMtu: number;
  readonly lid: number;
  readonly smLid: number;
  /** libibverbs' codes. */
  readonly speed: number;
  readonly width: number;
  readonly maxMessage: number;
  readonly pkeys: readonly (readonly [index: number, key: number])[];
  readonly gids: readonly GidInfo[];
}

export interface DeviceInfo {
  readonly name: string;
  /** 0 InfiniBand (RoCE included), 1 iWARP. */
  readonly transport: number;
  /** Set when the device could not be opened; then the fields below are missing. */
  readonly errno?: number;
  readonly firmware: string;
  readonly maxQpWr: number;
  readonly maxSge: number;
  readonly maxCqe: number;
  readonly maxRd: number;
  readonly maxInitRd: number;
  /** 0 none, 1 among requests of the device, 2 also against the CPU. */
  readonly atomics: number;
  readonly maxSrq: number;
  readonly maxSrqWr: number;
  readonly maxSrqSge: number;
  readonly maxMulticast: number;
  readonly onDemand: boolean;
  readonly dc: boolean;
  readonly ports: readonly PortInfo[];
}

/** What a program gets. */
export interface Choice {
  readonly device: DeviceInfo;
  readonly port: PortInfo;
  readonly gid: GidInfo;
  /** Index of the GID that was asked for, if one was. */
  readonly askedGid: number | undefined;
  readonly pkeyIndex: number;
  readonly serviceLevel: number;
  readonly trafficClass: number;
  /** Why this device and port, and why this GID; each a sentence. */
  readonly reasons: readonly string[];
}

const ACTIVE = 4;
const STATES = ['unknown', 'down', 'initialising', 'armed', 'active', 'active (deferred)'];
const WIDTHS: Readonly<Record<number, number>> = { 1: 1, 2: 4, 4: 8, 8: 12, 16: 2 };
const GBIT_PER_LANE: Readonly<Record<number, number>> = { 1: 2.5, 2: 5, 4: 10, 8: 10, 16: 14, 32: 25, 64: 50, 128: 100 };

export const isIwarp = (device: DeviceInfo): boolean => device.transport === 1;
export const isInfiniBand = (device: DeviceInfo, port: PortInfo): boolean => !isIwarp(device) && port.linkLayer === 1;
export const stateName = (port: PortInfo): string => STATES[port.state] ?? String(port.state);

/** Nominal rate of a port, Gbit/s. */
export function gbitPerSecond(port: PortInfo): number {
  return (WIDTHS[port.width] ?? 1) * (GBIT_PER_LANE[port.speed] ?? 0);
}

export function linkName(device: DeviceInfo, port: PortInfo): string {
  if (isIwarp(device)) return 'iWARP';
  return port.linkLayer === 1 ? 'InfiniBand' : 'RoCE';
}

export function gidBytes(gid: GidInfo): Uint8Array {
  return new Uint8Array(Buffer.from(gid.gid, 'hex'));
}

/** A GID as IPv6 text, IPv4 as ::ffff:a.b.c.d. */
export function gidWords(gid: GidInfo): string {
  return gidText(addressOfGid(gidBytes(gid)));
}

const isV4 = (gid: GidInfo): boolean => gid.gid.startsWith('00000000000000000000ffff');
const isLinkLocal = (gid: GidInfo): boolean => gid.gid.startsWith('fe80');

/** Every device of the machine. Throws VERBS_SYSTEM where libibverbs cannot say. */
export function listDevices(addon: IbverbsAddon): DeviceInfo[] {
  const text = addon.devices();
  // No RDMA subsystem in this kernel, or none loaded: no devices.
  if (text === -constants.errno.ENOSYS) return [];
  if (typeof text === 'number') throw systemError(text, 'libibverbs cannot list devices');
  return JSON.parse(text) as DeviceInfo[];
}

interface Wish {
  readonly device: string | undefined;
  readonly port: number | undefined;
  readonly gid: number | undefined;
  readonly pkey: number | undefined;
  readonly sl: number;
  readonly tc: number;
}

/** Reads 'mlx5_0:2?gid=3&pkey=0x8001'. Throws VERBS_INVALID. */
function parseWish(text: string | undefined): Wish {
  const match = /^([^:?]*)(?::(\d+))?(?:\?(.*))?$/.exec(text ?? '');
  if (!match) throw new VerbsError('VERBS_INVALID', `'${text}' names no RDMA device: write 'mlx5_0:1?gid=3&pkey=0x8001'`);
  const values = new Map<string, number>();
  for (const [name, value] of new URLSearchParams(match[3] ?? '')) {
    if (!['gid', 'pkey', 'sl', 'tc'].includes(name) || !/^(0x[0-9a-f]+|\d+)$/i.test(value)) {
      throw new VerbsError(
        'VERBS_INVALID',
        `an RDMA device has no option '${name}=${value}': it has gid, pkey, sl and tc, each a number`,
      );
    }
    values.set(name, Number(value));
  }
  return {
    device: match[1] || undefined,
    port: match[2] === undefined ? undefined : Number(match[2]),
    gid: values.get('gid'),
    pkey: values.get('pkey'),
    sl: values.get('sl') ?? 0,
    tc: values.get('tc') ?? 0,
  };
}

/** How good a GID is for reaching others, higher is better, with the reason. */
function gidRank(device: DeviceInfo, port: PortInfo, gid: GidInfo): [rank: number, reason: string] {
  if (isIwarp(device)) return [1, 'iWARP addresses peers by IP through rdma-cm; the GID only names the port'];
  if (isInfiniBand(device, port)) return [gid.index === 0 ? 2 : 1, 'GID 0 of an InfiniBand port is the one of its own GUID'];
  if (gid.type === 2 && isV4(gid)) return [4, 'RoCE v2 with an IPv4 address: routable, and every RoCE implementation has it'];
  if (gid.type === 2 && !isLinkLocal(gid)) return [3, 'RoCE v2 with a global IPv6 address, and there is no IPv4 one'];
  if (gid.type === 2)
    return [2, 'only a link-local RoCE v2 address: it reaches hosts of the same network alone; give the interface an IP address'];
  return [1, 'only RoCE v1: it reaches hosts of the same network alone'];
}

function pickGid(device: DeviceInfo, port: PortInfo, index: number | undefined): [GidInfo, string] {
  if (port.gids.length === 0) {
    throw new VerbsError('VERBS_NO_DEVICE', `port ${port.number} of ${device.name} has no GID: give its interface an IP address`);
  }
  if (index !== undefined) {
    const found = port.gids.find((gid) => gid.index === index);
    if (found) return [found, 'you named it'];
    const known = port.gids.map((gid) => `${gid.index} (${gidWords(gid)})`).join(', ');
    throw new VerbsError('VERBS_NO_DEVICE', `port ${port.number} of ${device.name} has no GID ${index}: it has ${known}`);
  }
  const ranked = port.gids.map((gid) => ({ gid, rank: gidRank(device, port, gid) }));
  ranked.sort((a, b) => b.rank[0] - a.rank[0] || a.gid.index - b.gid.index);
  return [ranked[0].gid, ranked[0].rank[1]];
}

/** A partition key as the tools of InfiniBand write it. */
const keyText = (key: number): string => `0x${key.toString(16).padStart(4, '0')}`;

/** The top bit of a key is full membership: limited members reach full ones only. */
const isFull = (key: number): boolean => (key & 0x8000) !== 0;

function pickKey(device: DeviceInfo, port: PortInfo, key: number | undefined): [index: number, reason: string] {
  if (key === undefined) {
    const whole = port.pkeys.find(([, value]) => value === 0xffff);
    if (whole) return [whole[0], 'full member of the default partition'];
    const full = port.pkeys.find(([, value]) => isFull(value));
    if (full) return [full[0], 'the first partition that this port is a full member of'];
    return [port.pkeys[0]?.[0] ?? 0, 'only limited memberships: it reaches full members alone'];
  }
  const exact =
    port.pkeys.find(([, value]) => value === key) ?? port.pkeys.find(([, value]) => (value & 0x7fff) === (key & 0x7fff));
  if (exact) return [exact[0], isFull(exact[1]) ? 'you named it' : 'you named it; a limited member reaches full members alone'];
  const known = port.pkeys.map(([, value]) => `0x${value.toString(16)}`).join(', ');
  throw new VerbsError(
    'VERBS_NO_DEVICE',
    `port ${port.number} of ${device.name} is not in partition 0x${key.toString(16)}: it is in ${known || 'none'}`,
  );
}

/** Which device, port, GID and partition a program gets. Throws VERBS_NO_DEVICE with what there is and what to do. */
export function choose(devices: readonly DeviceInfo[], text: string | undefined): Choice {
  const wish = parseWish(text);
  if (devices.length === 0) {
    throw new VerbsError(
      'VERBS_NO_DEVICE',
      "there is no RDMA device: load the driver of your NIC, or Soft-RoCE ('modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0')",
    );
  }
  const usable = wish.device === undefined ? devices : devices.filter((device) => device.name === wish.device);
  if (usable.length === 0) {
    const names = devices.map((device) => device.name).join(', ');
    throw new VerbsError('VERBS_NO_DEVICE', `there is no RDMA device '${wish.device}': this machine has ${names}`);
  }
  const ports = usable.flatMap((device) => (device.ports ?? []).map((port) => ({ device, port })));
  const wanted = wish.port === undefined ? ports : ports.filter(({ port }) => port.number === wish.port);
  if (ports.length > 0 && wanted.length === 0) {
    const known = ports.map(({ device, port }) => `port ${port.number} of ${device.name}`).join(', ');
    throw new VerbsError('VERBS_NO_DEVICE', `there is no port ${wish.port}: there is ${known}`);
  }
  const active = wanted.filter(({ port }) => port.state >= ACTIVE);
  if (active.length === 0) {
    const faults = [
      ...wanted.map(({ device, port }) => `port ${port.number} of ${device.name} is ${stateName(port)}`),
      ...usable
        .filter(({ errno }) => errno !== undefined)
        .map(({ name, errno }) => `${name} cannot be opened (errno ${errno}: is /dev/infiniband there, and may you read it?)`),
    ];
    throw new VerbsError(
      'VERBS_NO_DEVICE',
      `no port is active: ${faults.join('; ')}. Check cable, switch and 'ip link set ... up'`,
    );
  }
  // A port without a GID reaches nobody, however fast it is.
  const worth = ({ port }: { port: PortInfo }): number => (port.gids.length > 0 ? 1 + gbitPerSecond(port) : 0);
  active.sort((a, b) => worth(b) - worth(a));
  const { device, port } = active[0];
  const others = ports.length - 1;
  const why =
    wish.device !== undefined
      ? 'you named it'
      : others === 0
        ? 'it is the only one'
        : `the fastest active port, ${gbitPerSecond(port)} Gbit/s, of ${ports.length}`;
  const [gid, gidWhy] = pickGid(device, port, wish.gid);
  const [pkeyIndex, keyWhy] = pickKey(device, port, wish.pkey);
  const key = port.pkeys.find(([index]) => index === pkeyIndex)?.[1];
  return {
    device,
    port,
    gid,
    askedGid: wish.gid,
    pkeyIndex,
    serviceLevel: wish.sl,
    trafficClass: wish.tc,
    reasons: [
      `port ${port.number} of ${device.name}: ${why}`,
      `GID ${gid.index}, ${gidWords(gid)}: ${gidWhy}`,
      // Every RoCE port is in the default partition and no other.
      ...(isInfiniBand(device, port) && key !== undefined ? [`partition ${keyText(key)}: ${keyWhy}`] : []),
    ],
  };
}

/** The same choice on a port that has changed: GID and partition wherever they stand now; where the GID is gone, the best that is left. */
export function renewed(choice: Choice, port: PortInfo): Choice {
  const { device, gid, askedGid, pkeyIndex } = choice;
  const kept =
    port.gids.find(({ index }) => index === askedGid) ?? port.gids.find((one) => one.gid === gid.gid && one.type === gid.type);
  const best = kept ?? (port.gids.length > 0 ? pickGid(device, port, undefined)[0] : gid);
  const key = choice.port.pkeys.find(([index]) => index === pkeyIndex)?.[1];
  const moved = port.pkeys.find(([, value]) => value === key)?.[0];
  return { ...choice, port, gid: best, pkeyIndex: moved ?? pkeyIndex };
}

/** Name of the network interface that belongs to a GID, or undefined. */
function interfaceOf(device: DeviceInfo, port: PortInfo, gid: GidInfo): string | undefined {
  const text = (path: string): string => {
    try {
      return readFileSync(path, 'utf8').trim();
    } catch {
      return ''; // older kernels do not say it, and interfaces come and go
    }
  };
  const said = text(`/sys/class/infiniband/${device.name}/ports/${port.number}/gid_attrs/ndevs/${gid.index}`);
  if (said !== '') return said;
  return readdirSync('/sys/class/net').find((name) => {
    if (gid.interface > 0 && Number(text(`/sys/class/net/${name}/ifindex`)) === gid.interface) return true;
    // The GID of an iWARP port begins with the Ethernet address of its interface.
    const address = text(`/sys/class/net/${name}/address`).replaceAll(':', '');
    return isIwarp(device) && /[1-9a-f]/.test(address) && gid.gid.startsWith(address);
  });
}

/** The IP address that rdma-cm uses for a port, or undefined where its interface has none. */
export function addressOf({ device, port, gid }: Choice): string | undefined {
  if (gid.type === 2 && isV4(gid)) return ipText(gidBytes(gid).subarray(12));
  const name = interfaceOf(device, port, gid);
  const addresses = name === undefined ? [] : (networkInterfaces()[name] ?? []);
  const best = addresses.find(({ family }) => family === 'IPv4') ?? addresses[0];
  if (best) return best.family === 'IPv6' && best.scopeid ? `${best.address}%${name}` : best.address;
  return gid.type === 2 && !isLinkLocal(gid) ? ipText(gidBytes(gid)) : undefined;
}
