/**
 * `verbena bench verbs --provider sim`: how fast this machine simulates. Virtual time is as fast as the links are said to be, so what is measured is
 * packets and events per second of a core.
 */

import { playAllToAll } from '../../../verbs/providers/sim/all-to-all.js';
import { playStream } from '../../../verbs/providers/sim/stream.js';
import { formatCount, formatSize, significant } from '../../size.js';

const STREAM_DEVICES = [2, 64];
const ALL_TO_ALL_DEVICES = 256;
/** Seconds of a core that a stream is played, after as long to warm up. */
const STREAM_SECONDS = 1;

interface SimulatedResult {
  readonly who: 'verbena/sim';
  readonly what: string;
  readonly devices: number;
  readonly packets: number;
  readonly events: number;
  readonly cpuSeconds: number;
  readonly packetsPerSecond: number;
  readonly eventsPerSecond: number;
}

/** Seconds of a core since it was made. */
function cpuClock(): () => number {
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1e6;
  };
}

function resultOf(what: string, devices: number, packets: number, events: number, cpuSeconds: number): SimulatedResult {
  return {
    who: 'verbena/sim',
    what,
    devices,
    packets,
    events,
    cpuSeconds,
    packetsPerSecond: Math.round(packets / cpuSeconds),
    eventsPerSecond: Math.round(events / cpuSeconds),
  };
}

function streamOf(devices: number, size: number): SimulatedResult {
  let seconds = cpuClock();
  playStream(devices, size, () => seconds() > STREAM_SECONDS);
  seconds = cpuClock();
  const { packets, events } = playStream(devices, size, () => seconds() > STREAM_SECONDS).counters();
  return resultOf(`WRITE ${formatSize(size)}`, devices, packets, events, seconds());
}

function allToAllOf(type: 'UD' | 'DC'): SimulatedResult {
  const seconds = cpuClock();
  const { packets, events } = playAllToAll(type, ALL_TO_ALL_DEVICES);
  return resultOf(`all-to-all ${type}, 64 B, set-up included`, ALL_TO_ALL_DEVICES, packets, events, seconds());
}

/** Streams of WRITEs of `size` bytes, and all-to-all of small messages. Rates are per second of a core. */
export function measureSimulation(size: number): { readonly results: readonly SimulatedResult[] } {
  return { results: [...STREAM_DEVICES.map((devices) => streamOf(devices, size)), allToAllOf('UD'), allToAllOf('DC')] };
}

export function simulationText(results: readonly SimulatedResult[]): string {
  return results
    .map(
      (r) =>
        `${r.what}, ${r.devices} devices: ${formatCount(r.packetsPerSecond)} packets/s, ${formatCount(r.eventsPerSecond)} events/s of a core ` +
        `(${formatCount(r.packets)} packets in ${significant(r.cpuSeconds)} s)`,
    )
    .join('\n');
}
