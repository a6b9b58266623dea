/** Network interfaces and RDMA devices. */

import type { HostFiles } from '../../host-files.js';
import type { Finding } from './finding.js';

const AREA = 'Network';
const JUMBO = 4200;

interface Interface {
  readonly name: string;
  readonly state: string;
  /** Megabits per second, or undefined where the driver does not say. */
  readonly speed: number | undefined;
  readonly mtu: number | undefined;
}

function gigabits(megabits: number): string {
  return megabits >= 1000 ? `${megabits / 1000} Gb/s` : `${megabits} Mb/s`;
}

function interfaces(files: HostFiles): Interface[] {
  return files.list('sys/class/net').map((name) => {
    const speed = files.number(`sys/class/net/${name}/speed`);
    return {
      name,
      state: files.text(`sys/class/net/${name}/operstate`) ?? 'unknown',
      speed: speed !== undefined && speed > 0 ? speed : undefined,
      mtu: files.number(`sys/class/net/${name}/mtu`),
    };
  });
}

function interfaceFinding(device: Interface): Finding {
  const parts = [device.state, device.speed === undefined ? 'speed unknown' : gigabits(device.speed), `MTU ${device.mtu ?? '?'}`];
  const isFast = (device.speed ?? 0) >= 10_000;
  const low = isFast && device.state === 'up' && (device.mtu ?? 0) < JUMBO;
  return {
    area: AREA,
    what: device.name,
    level: low ? 'note' : 'ok',
    found: parts.join(', '),
    advice: low ? `RoCE moves 4096 bytes a packet with a larger MTU: ip link set ${device.name} mtu 9000` : undefined,
    data: device,
  };
}

/** RDMA devices with their ports: /sys/class/infiniband/NAME/ports/N. */
function rdmaFindings(files: HostFiles): Finding[] {
  const devices = files.list('sys/class/infiniband');
  if (devices.length === 0) {
    return [
      {
        area: AREA,
        what: 'RDMA devices',
        level: 'ok',
        found: 'none',
        advice:
          'shared memory needs none; without a NIC, modprobe rdma_rxe and rdma link add rxe0 type rxe netdev eth0 make a software one',
        data: [],
      },
    ];
  }
  return devices.flatMap((name) =>
    files.list(`sys/class/infiniband/${name}/ports`).map((port): Finding => {
      const at = `sys/class/infiniband/${name}/ports/${port}`;
      const state = files.text(`${at}/state`)?.replace(/^\d+:\s*/, '') ?? 'unknown';
      const rate = files.text(`${at}/rate`) ?? 'rate unknown';
      const layer = files.text(`${at}/link_layer`) ?? 'unknown link';
      const active = state === 'ACTIVE';
      return {
        area: AREA,
        what: `${name} port ${port}`,
        level: active ? 'ok' : 'problem',
        found: `${state}, ${rate}, ${layer}`,
        advice: active
          ? undefined
          : layer === 'InfiniBand'
            ? 'is the cable in, and does a subnet manager run?'
            : 'bring its network interface up',
        data: { name, port: Number(port), state, rate, layer },
      };
    }),
  );
}

export function networkFindings(files: HostFiles): Finding[] {
  return [...interfaces(files).map(interfaceFinding), ...rdmaFindings(files)];
}
