/** What the addon for UCX exports, typed; native/ucx/addon.c is the other side. Pointers are numbers, negative numbers are a ucs_status_t. */

import type { OptionalAddon } from '../../../native/build.js';
import { loadOptionalAddon } from '../../../native/load.js';

/** A pointer of C: a context, a worker, memory, a key. */
export type Pointer = number;

export interface UcxAddon {
  /** Settings as name, value, name, value ...; without the prefix 'UCX_'. -100 - n: setting n is not known to this UCX. */
  contextOpen(settings: readonly string[]): Pointer;
  contextClose(context: Pointer): void;
  /** Address 0: UCX allocates. */
  memoryMap(context: Pointer, address: number, length: number): Pointer;
  memoryBuffer(memory: Pointer, length: number): ArrayBuffer;
  memoryUnmap(context: Pointer, memory: Pointer): number;
  memoryPack(context: Pointer, memory: Pointer): Uint8Array | undefined;
  addressOf(buffer: ArrayBufferLike): number;
  statusWords(status: number): string;
  version(): string;
  workerOpen(
    context: Pointer,
    rings: ArrayBuffer,
    commandBytes: number,
    eventBytes: number,
    wake: () => void,
  ): NativeWorker | number;
  workerClose(worker: Pointer): void;
  /** 1: `wake` will be called; 0: there is something to do now. */
  workerSleep(worker: Pointer): number;
  workerRouse(worker: Pointer): void;
  /** Whether a sleeping worker keeps the process alive. */
  workerHold(worker: Pointer, on: number): void;
  connect(worker: Pointer, address: Uint8Array, peerErrors: number): number;
  connectTo(worker: Pointer, ip: string, port: number): number;
  accept(worker: Pointer, request: Pointer): number;
  listen(worker: Pointer, number: number, ip: string, port: number): [listener: Pointer, port: number] | number;
  listenerClose(listener: Pointer): void;
  disconnect(worker: Pointer, endpoint: number, force: number): number;
  keyUnpack(worker: Pointer, endpoint: number, key: Uint8Array): Pointer;
  keyRelease(key: Pointer): void;
  /** What UCX prints of an endpoint: lanes and thresholds. */
  describe(worker: Pointer, endpoint: number): string;
}

export interface NativeWorker {
  readonly handle: Pointer;
  /** Executes commands, makes progress, leaves events: see rings.ts. */
  readonly run: () => void;
  readonly address: Uint8Array;
  readonly headerLimit: number;
}

const UCX: OptionalAddon = { name: 'ucx', libraries: ['-lucp', '-lucs'], packages: 'libucx-dev' };

/** Opens the addon; the first call on a machine compiles it. Throws AddonError: VERBENA_NO_LIBRARY names the package to install. */
export function loadUcx(): UcxAddon {
  return loadOptionalAddon<UcxAddon>(UCX);
}
