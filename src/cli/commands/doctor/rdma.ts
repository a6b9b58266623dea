/** RDMA devices as libibverbs sees them: ports, GIDs, partitions, and which of them a program would get, and why. */

import { loadIbverbs } from '../../../verbs/providers/ibverbs/addon.js';
import {
  addressOf,
  choose,
  type DeviceInfo,
  gbitPerSecond,
  gidWords,
  linkName,
  listDevices,
  type PortInfo,
  stateName,
} from '../../../verbs/providers/ibverbs/discovery.js';
import { lockedMemoryWords } from '../../../verbs/providers/ibverbs/memory-lock.js';
import type { Finding } from './finding.js';

const AREA = 'RDMA devices through libibverbs';
const GID_TYPES = ['', 'RoCE v1', 'RoCE v2'];
const MOST_GIDS = 8;

function portFinding(device: DeviceInfo, port: PortInfo): Finding {
  const isActive = stateName(port).startsWith('active');
  const gids = port.gids.slice(0, MOST_GIDS).map((gid) => `${gid.index}: ${gidWords(gid)} ${GID_TYPES[gid.type] ?? ''}`.trim());
  const more = port.gids.length > MOST_GIDS ? `, and ${port.gids.length - MOST_GIDS} more` : '';
  const keys = port.pkeys.map(([, key]) => `0x${key.toString(16)}`).join(' ');
  const lid = port.linkLayer === 1 ? `, LID ${port.lid}` : '';
  return {
    area: AREA,
    what: `${device.name} port ${port.number}`,
    level: isActive ? 'ok' : 'note',
    found:
      `${stateName(port)}, ${linkName(device, port)}, ${gbitPerSecond(port)} Gbit/s, MTU ${port.activeMtu} of ${port.maxMtu}${lid}; ` +
      `GIDs ${gids.join(', ') || 'none'}${more}; partitions ${keys || 'none'}`,
    ...(!isActive && { advice: 'check cable, switch, subnet manager, and that its network interface is up' }),
    data: { device: device.name, ...port },
  };
}

/** Nothing where there is no RDMA device or no libibverbs: the providers' own findings say so. */
export function rdmaFindings(): Finding[] {
  let devices: DeviceInfo[];
  try {
    devices = listDevices(loadIbverbs());
  } catch {
    return [];
  }
  if (devices.length === 0) return [];
  const findings = devices.flatMap((device) => {
    if (device.errno === undefined) return device.ports.map((port) => portFinding(device, port));
    const advice = 'is /dev/infiniband there, and may this user read it?';
    return [
      { area: AREA, what: device.name, level: 'problem', found: `cannot be opened (errno ${device.errno})`, advice } as Finding,
    ];
  });
  try {
    const choice = choose(devices, undefined);
    const ip = addressOf(choice);
    findings.push({
      area: AREA,
      what: 'would be chosen',
      level: ip === undefined ? 'note' : 'ok',
      found: choice.reasons.join('; '),
      ...(ip === undefined && { advice: 'listen and connect go by IP (rdma-cm): give the interface of this port an IP address' }),
      data: { device: choice.device.name, port: choice.port.number, gidIndex: choice.gid.index, ip: ip ?? null },
    });
  } catch (error) {
    findings.push({ area: AREA, what: 'would be chosen', level: 'problem', found: 'none', advice: (error as Error).message });
  }
  const { isLow, words } = lockedMemoryWords();
  findings.push({ area: AREA, what: 'registering memory', level: isLow ? 'problem' : 'ok', found: words });
  return findings;
}
