/**
 * A native thread that watches completion queues (native/notify.c): producers then make no system call to wake this process.
 */

import { readFileSync } from 'node:fs';
import type { CompletionThread } from '../../completion-queue.js';
import { VerbsError } from '../../errors.js';
import { systemError } from '../../system-error.js';
import type { ShmCompletionQueue } from './completion-queue.js';
import type { ShmDevice } from './device.js';

export class ShmCompletionThread implements CompletionThread {
  readonly cpu: number;
  readonly #device: ShmDevice;
  #handle: number;

  /** @param options `cpu` pins it; `numaNode` pins it to the first core of that node. */
  constructor(device: ShmDevice, options: { cpu?: number; numaNode?: number }) {
    this.#device = device;
    this.cpu = options.cpu ?? (options.numaNode === undefined ? -1 : firstCpuOf(options.numaNode));
    if (!Number.isInteger(this.cpu) || this.cpu < -1 || this.cpu > 1023) {
      throw new VerbsError('VERBS_INVALID', `cpu must be a core of this machine: got ${this.cpu}`);
    }
    this.#handle = device.door.addon.watcherStart(this.cpu, device.bellFd);
    if (this.#handle < 0) throw systemError(this.#handle, `cannot start a completion thread on core ${this.cpu}`);
  }

  /** False while it sleeps: queues are then armed in the ordinary way. */
  get awake(): boolean {
    return this.#handle !== 0 && this.#device.door.addon.watcherAsleep(this.#handle) === 0;
  }

  /** There is something to watch again. */
  traffic(): void {
    if (this.#handle !== 0 && !this.awake) this.#device.door.addon.watcherWake(this.#handle);
  }

  add(cq: ShmCompletionQueue): void {
    const errno = this.#device.door.addon.watcherAdd(this.#handle, this.#device.addressOfWord(cq.at));
    if (errno !== 0) throw new VerbsError('VERBS_NO_MEMORY', 'a completion thread watches at most 256 queues: make another one');
  }

  remove(cq: ShmCompletionQueue): void {
    if (this.#handle !== 0) this.#device.door.addon.watcherRemove(this.#handle, this.#device.addressOfWord(cq.at));
  }

  close(): void {
    if (this.#handle === 0) return;
    const handle = this.#handle;
    this.#handle = 0;
    this.#device.door.addon.stop(handle);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function firstCpuOf(node: number): number {
  try {
    return Number.parseInt(readFileSync(`/sys/devices/system/node/node${node}/cpulist`, 'utf8'), 10);
  } catch {
    throw new VerbsError('VERBS_INVALID', `this machine has no NUMA node ${node}`);
  }
}
