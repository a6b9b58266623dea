/**
 * The protection domain of the shm provider: registers memory and makes queues.
 */

import { readFileSync } from 'node:fs';
import { markAsUntransferable } from 'node:worker_threads';
import { ACCESS_REMOTE_ATOMIC, type Access, accessBits, accessWords } from '../../access.js';
import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { MemoryRegion, Sge, StridedLayout } from '../../memory-region.js';
import { QP_TYPES } from '../../opcode.js';
import type { AddressVector } from '../../qp-state.js';
import type { QpInit, QueuePair } from '../../queue-pair.js';
import type { SharedReceiveQueue, SrqInit } from '../../shared-receive-queue.js';
import { ProvidedDomain } from '../provided-domain.js';
import { bytesOf, refuseMovable } from '../registrable.js';
import { ShmAddressHandle } from './address-handle.js';
import type { ShmDevice } from './device.js';
import { KIND_MAPPED, KIND_PRIVATE, KIND_UMR, RUN_F64 } from './layout.js';
import { ShmMemoryRegion } from './memory-region.js';
import type { Run } from './peer.js';
import { ShmQueuePair } from './queue-pair.js';
import { ShmSharedReceiveQueue } from './shared-receive-queue.js';

/** Rights that the parts must have for the whole to give them. */
const PASSED_ON = 1 | 2 | 4 | 8;
const MOST_PARTS = 64;

export class ShmProtectionDomain extends ProvidedDomain {
  readonly device: ShmDevice;
  readonly number: number;

  constructor(device: ShmDevice, number: number) {
    super();
    this.device = device;
    this.number = number;
  }

  register(memory: ArrayBuffer | ArrayBufferView, access: Access = {}): MemoryRegion {
    this.assertOpen();
    const bits = accessBits(access);
    const bytes = bytesOf(memory);
    const buffer = bytes.buffer as ArrayBuffer;
    const home = this.device.memory.locate(buffer);
    if (home) {
      if (!home.segment.writable && bits & ~(4 | 64)) {
        throw new VerbsError(
          'VERBS_INVALID',
          `the file is mapped for reading: it cannot give ${accessWords(bits)}; map it with { writable: true }`,
        );
      }
      const offset = home.offset + bytes.byteOffset;
      return new ShmMemoryRegion(this, home.kind, bits, bytes, {
        kind: KIND_MAPPED,
        address: home.segment.address + offset,
        length: bytes.byteLength,
        segmentIndex: home.segmentIndex,
        offset,
        parts: 0,
      });
    }
    if (bits & ACCESS_REMOTE_ATOMIC) {
      throw new VerbsError('VERBS_UNSUPPORTED', 'remote atomics need memory that peers can map: allocate it with device.alloc');
    }
    const base = this.device.door.addon.addressOf(buffer);
    refuseMovable(buffer, base);
    allowTracing(this.device);
    markAsUntransferable(buffer);
    return new ShmMemoryRegion(this, 'private', bits, bytes, {
      kind: KIND_PRIVATE,
      address: base + bytes.byteOffset,
      length: bytes.byteLength,
      segmentIndex: 0,
      offset: 0,
      parts: 0,
    });
  }

  registerIndexed(parts: readonly Sge[], access: Access = {}): MemoryRegion {
    const runs = parts.map((sge) => ({
      key: sge.lkey,
      address: sge.addr,
      blockLength: sge.length,
      stride: sge.length,
      count: 1,
    }));
    return this.#registerRuns(runs, access);
  }

  registerStrided(layout: StridedLayout, access: Access = {}): MemoryRegion {
    const { region, offset = 0, blockLength, stride, count } = layout;
    for (const [name, value, low] of [
      ['offset', offset, 0],
      ['blockLength', blockLength, 1],
      ['stride', stride, blockLength],
      ['count', count, 1],
    ] as const) {
      if (!Number.isInteger(value) || value < low)
        throw new VerbsError('VERBS_INVALID', `${name} must be at least ${low}: got ${String(value)}`);
    }
    return this.#registerRuns([{ key: region.lkey, address: region.addr + offset, blockLength, stride, count }], access);
  }

  #registerRuns(runs: readonly Run[], access: Access): MemoryRegion {
    this.assertOpen();
    const bits = accessBits(access);
    if (runs.length === 0 || runs.length > MOST_PARTS) {
      throw new VerbsError('VERBS_INVALID', `an indexed region has 1 to ${MOST_PARTS} parts: got ${runs.length}`);
    }
    const bases = runs.map((run) => {
      const base = this.device.findRegion(run.key);
      if (!base || base.pd !== this)
        throw new VerbsError('VERBS_INVALID', `lkey ${run.key} names no region of this protection domain`);
      if (base.kind === 'umr')
        throw new VerbsError('VERBS_INVALID', 'a part must be ordinary memory, not an indexed or strided region');
      const end = run.address + run.stride * (run.count - 1) + run.blockLength;
      if (run.address < base.addr || end > base.addr + base.length) {
        throw new VerbsError(
          'VERBS_INVALID',
          `the blocks end ${end - base.addr - base.length} bytes outside the region of ${base.length} bytes`,
        );
      }
      const missing = bits & PASSED_ON & ~base.access;
      if (missing) throw new VerbsError('VERBS_INVALID', `a part does not allow ${accessWords(missing)}, so the whole cannot`);
      return base;
    });
    const descriptor = this.device.arena.take(runs.length * RUN_F64 * 8);
    runs.forEach((run, i) => {
      descriptor.segment.f64.set(
        [run.key, run.address, run.blockLength, run.stride, run.count],
        descriptor.offset / 8 + i * RUN_F64,
      );
    });
    const entry = {
      kind: KIND_UMR,
      address: descriptor.segment.address + descriptor.offset,
      length: runs.reduce((sum, run) => sum + run.blockLength * run.count, 0),
      segmentIndex: descriptor.segmentIndex,
      offset: descriptor.offset,
      parts: runs.length,
    };
    return new ShmMemoryRegion(this, 'umr', bits, new Uint8Array(0), entry, { runs, bases, descriptor });
  }

  createQp(init: QpInit): QueuePair {
    this.assertOpen();
    if (!QP_TYPES.includes(init.type)) {
      throw new VerbsError('VERBS_INVALID', `type must be ${QP_TYPES.join(', ')}: got '${String(init.type)}'`);
    }
    return new ShmQueuePair(this, init);
  }

  createSrq(init: SrqInit = {}): SharedReceiveQueue {
    this.assertOpen();
    return new ShmSharedReceiveQueue(this, init);
  }

  createAh(av: AddressVector): AddressHandle {
    this.assertOpen();
    return new ShmAddressHandle(this.device, av);
  }
}

let tracing = false;

/** Yama level 1 lets only declared processes into our memory: the launcher and its descendants, or any of this user. */
function allowTracing(device: ShmDevice): void {
  if (tracing) return;
  tracing = true;
  let scope = '0';
  try {
    scope = readFileSync('/proc/sys/kernel/yama/ptrace_scope', 'utf8').trim();
  } catch {
    return;
  }
  if (scope !== '1') return;
  const launcher = Number(process.env['VERBENA_LAUNCHER_PID']);
  device.door.addon.allowTracing(Number.isInteger(launcher) && launcher > 0 ? launcher : -1);
}
