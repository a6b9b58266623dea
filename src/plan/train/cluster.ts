/**
 * Clusters: what a training plan may use. Speeds are one way, because published numbers mix one-way and two-way: NVLink "600" of an A100 is two-way (300
 * each way), a "200 Gb/s" NIC is one way (25 GB/s each way). Peak operations are dense half precision.
 */
import { PlanRefusal, requireInteger, requireNumber } from '../refusal.js';

/** An accelerator: its speed, its memory, and its links. */
export interface Device {
  readonly name: string;
  /** Dense half-precision operations per second. */
  readonly flopsPerSecond: number;
  readonly memoryBytes: number;
  readonly memoryBytesPerSecond: number;
  /** Bytes per second to other devices of the host, one way. */
  readonly linkBytesPerSecond: number;
  /** Bytes per second of one device's share of the NICs, one way. */
  readonly nicBytesPerSecond: number;
}

export interface Cluster {
  readonly name: string;
  readonly device: Device;
  /** Devices per host. */
  readonly devicesPerHost: number;
  readonly hosts: number;
  /** Share of the peak that dense kernels reach, 0..1. */
  readonly computeEfficiency: number;
  /** Share of the nominal speed that collectives reach on links and NICs, 0..1. */
  readonly linkEfficiency: number;
  readonly nicEfficiency: number;
  /** Seconds per message inside a host and between hosts. */
  readonly linkLatencySeconds: number;
  readonly nicLatencySeconds: number;
}

const GB = 1e9;
/** Devices by name. */
export const devices: readonly Device[] = [
  {
    name: 'v100',
    flopsPerSecond: 125e12,
    memoryBytes: 32 * GB,
    memoryBytesPerSecond: 900 * GB,
    linkBytesPerSecond: 150 * GB,
    nicBytesPerSecond: 12.5 * GB,
  },
  {
    name: 'a100',
    flopsPerSecond: 312e12,
    memoryBytes: 80 * GB,
    memoryBytesPerSecond: 2039 * GB,
    linkBytesPerSecond: 300 * GB,
    nicBytesPerSecond: 25 * GB,
  },
  {
    name: 'a800',
    flopsPerSecond: 312e12,
    memoryBytes: 80 * GB,
    memoryBytesPerSecond: 2039 * GB,
    linkBytesPerSecond: 200 * GB,
    nicBytesPerSecond: 25 * GB,
  },
  {
    name: 'h100',
    flopsPerSecond: 989e12,
    memoryBytes: 80 * GB,
    memoryBytesPerSecond: 3350 * GB,
    linkBytesPerSecond: 450 * GB,
    nicBytesPerSecond: 50 * GB,
  },
];

/** The device of that name. @throws PlanRefusal that lists them. */
export function deviceNamed(name: string): Device {
  const found = devices.find((device) => device.name === name);
  if (found === undefined)
    throw new PlanRefusal(`there is no device "${name}"; there are ${devices.map((device) => device.name).join(', ')}`, 'a100');
  return found;
}

/** A cluster of hosts with eight devices, from `dgx-a100:128` (the number counts devices), or from a JSON description. */
export function parseCluster(text: string): Cluster {
  if (text.trim().startsWith('{')) return checkCluster(JSON.parse(text) as Partial<Cluster>);
  const [name, count = '8'] = text.split(':');
  const device = devices.find((candidate) => `dgx-${candidate.name}` === name);
  if (device === undefined)
    throw new PlanRefusal(
      `there is no cluster "${name}"; there are ${devices.map((d) => `dgx-${d.name}`).join(', ')}, or a JSON description`,
      'dgx-a100:64',
    );
  const total = requireInteger('devices of the cluster', Number(count), 1);
  const devicesPerHost = Math.min(8, total);
  if (total % devicesPerHost !== 0)
    throw new PlanRefusal(
      `${total} devices do not fill hosts of ${devicesPerHost}`,
      String(Math.max(8, Math.round(total / 8) * 8)),
    );
  return checkCluster({ name: text, device, devicesPerHost, hosts: total / devicesPerHost });
}

/** Fills in defaults (efficiencies 0.5 compute, 0.8 links and NICs; 5 us and 10 us latency) and refuses what makes no sense. */
export function checkCluster(given: Partial<Cluster>): Cluster {
  const device = given.device;
  if (device === undefined) throw new PlanRefusal('a cluster needs a device', JSON.stringify(devices[1]));
  for (const field of [
    'flopsPerSecond',
    'memoryBytes',
    'memoryBytesPerSecond',
    'linkBytesPerSecond',
    'nicBytesPerSecond',
  ] as const) {
    requireNumber(`device.${field}`, device[field], 1);
  }
  return {
    name: given.name ?? `${given.hosts ?? 1} hosts of ${given.devicesPerHost ?? 8} ${device.name}`,
    device,
    devicesPerHost: requireInteger('devicesPerHost', given.devicesPerHost ?? 8, 1),
    hosts: requireInteger('hosts', given.hosts ?? 1, 1),
    computeEfficiency: requireNumber('computeEfficiency', given.computeEfficiency ?? 0.5, 0.001, 1),
    linkEfficiency: requireNumber('linkEfficiency', given.linkEfficiency ?? 0.8, 0.001, 1),
    nicEfficiency: requireNumber('nicEfficiency', given.nicEfficiency ?? 0.8, 0.001, 1),
    linkLatencySeconds: requireNumber('linkLatencySeconds', given.linkLatencySeconds ?? 5e-6, 0),
    nicLatencySeconds: requireNumber('nicLatencySeconds', given.nicLatencySeconds ?? 10e-6, 0),
  };
}
