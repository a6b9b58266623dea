/**
 * Roofline: a kernel runs at min(peak, intensity x memory bandwidth). A distributed step has a third roof, the wire:
 * T >= max(FLOPs / peak, memory bytes / bandwidth, wire bytes / link).
 */
import { requireNumber } from '../refusal.js';
import type { Device } from '../train/cluster.js';

export interface RooflineQuestion {
  /** What computes. */
  readonly device: Device;
  /** Floating-point operations of the work. */
  readonly flops: number;
  /** Bytes that cross the device's memory. */
  readonly memoryBytes: number;
  /** Bytes that cross the wire. Default 0. */
  readonly wireBytes?: number;
  /** Bytes per second of the wire, one way. Default: the device's NIC. */
  readonly wireBytesPerSecond?: number;
}

/** Which roof limits the work, and how far it is from the others. */
export interface RooflineAnswer {
  readonly intensity: number;
  /** FLOPs per byte at which memory stops being the limit. */
  readonly ridge: number;
  readonly attainableFlops: number;
  readonly computeSeconds: number;
  readonly memorySeconds: number;
  readonly wireSeconds: number;
  readonly bound: 'compute' | 'memory' | 'wire';
  readonly seconds: number;
}

export function roofline(q: RooflineQuestion): RooflineAnswer {
  requireNumber('flops', q.flops, 1);
  requireNumber('memoryBytes', q.memoryBytes, 1);
  const wireBytes = requireNumber('wireBytes', q.wireBytes ?? 0, 0);
  const wireSpeed = requireNumber('wireBytesPerSecond', q.wireBytesPerSecond ?? q.device.nicBytesPerSecond, 1);
  const intensity = q.flops / q.memoryBytes;
  const times = {
    compute: q.flops / q.device.flopsPerSecond,
    memory: q.memoryBytes / q.device.memoryBytesPerSecond,
    wire: wireBytes / wireSpeed,
  };
  const seconds = Math.max(times.compute, times.memory, times.wire);
  const bound = times.wire === seconds && wireBytes > 0 ? 'wire' : times.memory >= times.compute ? 'memory' : 'compute';
  return {
    intensity,
    ridge: q.device.flopsPerSecond / q.device.memoryBytesPerSecond,
    attainableFlops: Math.min(q.device.flopsPerSecond, intensity * q.device.memoryBytesPerSecond),
    computeSeconds: times.compute,
    memorySeconds: times.memory,
    wireSeconds: times.wire,
    bound,
    seconds,
  };
}
