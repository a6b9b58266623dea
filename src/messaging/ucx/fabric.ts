/** UCX as what a context stands on: one ucp_context with its settings, and the memory that it allocated. */

import { basename } from 'node:path';
import { markAsUntransferable } from 'node:worker_threads';
import { openDoor } from '../../native/door.js';
import { VerbsError } from '../../verbs/errors.js';
import type { MapFileOptions } from '../../verbs/index.js';
import { MappedMemory } from '../../verbs/providers/mapped-memory.js';
import { refuseMovable } from '../../verbs/providers/registrable.js';
import { hasRoom } from '../../verbs/providers/shm/segment.js';
import type { Context, Fabric } from '../context.js';
import { MessagingError } from '../errors.js';
import { addressOfBuffer } from '../memory/native-copy.js';
import type { WorkerOptions } from '../options.js';
import { loadUcx, type Pointer, type UcxAddon } from './addon.js';
import { UcxSettings } from './settings.js';
import { isMappedShared, SharedMemory } from './shared-memory.js';
import { UcxWorker } from './worker.js';

/** What a worker takes of the shared memory with UCX's defaults, bytes. */
const WORKER_BYTES = 4_308_992;

export class UcxFabric implements Fabric {
  readonly provider = 'ucx';
  readonly name: string;
  readonly addon: UcxAddon;
  readonly context: Pointer;
  /** Network interfaces that UCX was told to use. */
  readonly interfaces: readonly string[];
  /** Peers of this host are reached by shared memory. */
  readonly sharesMemory: boolean;
  readonly #shared: SharedMemory;
  readonly #addresses = new WeakMap<ArrayBufferLike, number>();
  readonly #memories = new Map<ArrayBuffer, { readonly handle: Pointer; readonly number: number }>();
  /** Told of the number of memory that is given back. */
  readonly freed = new Set<(number: number) => void>();
  #lastNumber = 0;
  #files: MappedMemory | undefined;
  #isClosed = false;

  /** @param text settings of UCX over those of the environment (UCX_TLS, ...). Throws MSG_INVALID, MSG_UNSUPPORTED, AddonError. */
  constructor(text: string, name = basename(process.argv[1] ?? 'node')) {
    const settings = new UcxSettings(text);
    this.name = name;
    this.interfaces = (settings.get('NET_DEVICES') ?? '').split(',');
    this.sharesMemory = /(^|[,^])(all|sm|shm|mm|posix|sysv|xpmem)\b/.test(settings.get('TLS') ?? 'all');
    this.#shared = new SharedMemory(settings.get('POSIX_DIR') ?? '/dev/shm');
    this.addon = loadUcx();
    const context = settings.open(this.addon);
    if (context < 0) {
      const asked = ['TLS', 'NET_DEVICES'].map((setting) => `${setting}=${settings.get(setting) ?? 'all'}`).join(', ');
      throw new MessagingError(
        'MSG_UNSUPPORTED',
        `UCX cannot be opened with ${asked}: ${this.addon.statusWords(context)}: ucx_info -d (ucx-utils) lists what there is`,
      );
    }
    this.context = context;
  }

  /** Memory that UCX shares with peers of this host. Throws VERBS_NO_MEMORY. */
  alloc(byteLength: number): Uint8Array {
    if (!Number.isInteger(byteLength) || byteLength < 1) {
      throw new MessagingError('MSG_INVALID', `alloc takes a number of bytes, at least 1: got ${String(byteLength)}`);
    }
    if (!hasRoom(byteLength)) {
      throw new VerbsError('VERBS_NO_MEMORY', `${byteLength} bytes do not fit into memory: free some, or ask for less`);
    }
    const handle = this.map(0, byteLength);
    const buffer = this.addon.memoryBuffer(handle, byteLength);
    // Where none is left UCX takes memory of the process, which no peer can map.
    if (this.sharesMemory && this.#shared.isShortOf(byteLength) && !isMappedShared(addressOfBuffer(buffer))) {
      this.addon.memoryUnmap(this.context, handle, buffer);
      throw this.#shared.shortage('this memory', byteLength);
    }
    this.#memories.set(buffer, { handle, number: ++this.#lastNumber });
    markAsUntransferable(buffer);
    return new Uint8Array(buffer);
  }

  free({ buffer }: Uint8Array): void {
    const memory = this.#memories.get(buffer as ArrayBuffer);
    if (memory === undefined) return;
    this.#memories.delete(buffer as ArrayBuffer);
    for (const tell of this.freed) tell(memory.number);
    this.addon.memoryUnmap(this.context, memory.handle, buffer as ArrayBuffer);
  }

  revoke(): void {}

  mapFile(path: string, options: MapFileOptions): Uint8Array {
    this.#files ??= new MappedMemory(openDoor(), 'verbena-ucx');
    return new Uint8Array(this.#files.mapFile(path, options));
  }

  /** Registers memory; address 0: allocates it. Throws MSG_UNSUPPORTED. */
  map(address: number, length: number): Pointer {
    const memory = this.addon.memoryMap(this.context, address, length);
    if (memory < 0) throw new MessagingError('MSG_UNSUPPORTED', `${length} bytes of memory: ${this.words(memory)}`);
    return memory;
  }

  unmap(memory: Pointer): void {
    if (!this.#isClosed) this.addon.memoryUnmap(this.context, memory, undefined);
  }

  /** The handle of memory from `alloc`, or undefined. */
  memoryOf(buffer: ArrayBufferLike): Pointer | undefined {
    return this.#memories.get(buffer as ArrayBuffer)?.handle;
  }

  /** The number of memory from `alloc`, which no other has had; 0 for other memory. */
  numberOf(buffer: ArrayBufferLike): number {
    return this.#memories.get(buffer as ArrayBuffer)?.number ?? 0;
  }

  /** Address of bytes. Throws VERBS_INVALID for memory that may move or shrink, MSG_INVALID for memory that is gone. */
  addressOf(bytes: Uint8Array): number {
    const { buffer } = bytes;
    let base = this.#addresses.get(buffer);
    if (base === undefined) {
      base = addressOfBuffer(buffer);
      refuseMovable(buffer as ArrayBuffer, base);
      if (buffer instanceof ArrayBuffer) markAsUntransferable(buffer);
      this.#addresses.set(buffer, base);
    }
    return base + bytes.byteOffset;
  }

  words(status: number): string {
    return `UCX says: ${this.addon.statusWords(status)}`;
  }

  /** Throws MSG_INVALID, MSG_UNSUPPORTED, VERBS_NO_MEMORY. */
  async openWorker(context: Context, options: WorkerOptions): Promise<UcxWorker> {
    try {
      return new UcxWorker(context, this, options);
    } catch (error) {
      const isUnable = MessagingError.is(error) && error.code === 'MSG_UNSUPPORTED';
      throw isUnable && this.sharesMemory && this.#shared.isShortOf(WORKER_BYTES)
        ? this.#shared.shortage('a worker', WORKER_BYTES)
        : error;
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const [buffer, { handle }] of this.#memories) this.addon.memoryUnmap(this.context, handle, buffer);
    this.#memories.clear();
    this.addon.contextClose(this.context);
  }
}
