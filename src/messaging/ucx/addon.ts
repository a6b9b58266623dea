/** What the addon for UCX exports, typed; native/ucx/addon.c is the other side. Pointers are numbers, negative numbers are a ucs_status_t. */

import type { OptionalAddon } from '../../native/build.js';
import { openDoor } from '../../native/door.js';
import { loadOptionalAddon } from '../../native/load.js';

/** A pointer of C: a context, a worker, memory, a key. */
export type Pointer = number;

export interface UcxAddon {
  /** Names without 'UCX_', one a line: of what a context can be told (0), of the transports that are installed (1), of what is read when UCX is loaded (2). */
  settingNames(whose: number): string | undefined;
  /** Settings as name, value, name, value ...; without the prefix 'UCX_'. -100 - n: setting n does not take its value. */
  contextOpen(settings: readonly string[]): Pointer;
  contextClose(context: Pointer): void;
  /** Address 0: UCX allocates. */
  memoryMap(context: Pointer, address: number, length: number): Pointer;
  memoryBuffer(memory: Pointer, length: number): ArrayBuffer;
  /** The ArrayBuffer over memory that UCX allocated ends with it. */
  memoryUnmap(context: Pointer, memory: Pointer, buffer: ArrayBuffer | undefined): number;
  memoryPack(context: Pointer, memory: Pointer): Uint8Array | undefined;
  statusWords(status: number): string;
  version(): string;
  /** Eight bytes: the worker that `run` is for. */
  readonly current: ArrayBuffer;
  /** Executes commands, makes progress, leaves events: see rings.ts. */
  run(): void;
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
  disconnect(worker: Pointer, endpoint: number, force: number): number;
  keyUnpack(worker: Pointer, endpoint: number, key: Uint8Array): Pointer;
  keyRelease(key: Pointer): void;
  /** What UCX prints of an endpoint: lanes and thresholds. */
  describe(worker: Pointer, endpoint: number): string;
}

export interface NativeWorker {
  readonly handle: Pointer;
  readonly address: Uint8Array;
  readonly headerLimit: number;
}

/** @public The tests under sanitizers build it too. */
export const UCX: OptionalAddon = { name: 'ucx', libraries: ['-lucp', '-luct', '-lucs'], packages: 'libucx-dev' };

/**
 * What libucs reads when it is loaded, where the environment is silent. It would rewrite the code of mmap while other threads run it, and take the signals
 * that V8 uses: in Node both can end the process. And it would warn of every request that a peer's death or a forced close left behind, which is told here. What it logs is no output of the program.
 */
const SAFE_IN_NODE = {
  UCX_MEM_MMAP_HOOK_MODE: 'none',
  UCX_MEM_MALLOC_HOOKS: 'n',
  UCX_HANDLE_ERRORS: 'none',
  UCX_LOG_LEVEL: 'error',
  UCX_LOG_FILE: 'stderr',
};

/** Opens the addon; the first call on a machine compiles it. Throws AddonError: VERBENA_NO_LIBRARY names the package to install. */
export function loadUcx(): UcxAddon {
  const { addon } = openDoor();
  for (const [name, value] of Object.entries(SAFE_IN_NODE)) addon.environmentDefault(name, value);
  return loadOptionalAddon<UcxAddon>(UCX);
}
