/**
 * The transfer thread as the device sees it (native/transfer.c): large copies in the order they were posted, started at the first one.
 */

import { VerbsError } from '../../errors.js';
import { systemError } from '../../system-error.js';
import type { Block } from './arena.js';
import type { ShmDevice } from './device.js';
import type { ShmQueuePair } from './queue-pair.js';
import type { SendRequest } from './send-request.js';

const QUEUE = 256;
const MOST_PARTS = 64;

/** What a transfer needs beside the parts in the device's mover. Addresses of words; `slot` 0: no completion at the receiver. */
export interface TransferJob {
  readonly write: boolean;
  readonly pid: number;
  readonly announcement: number;
  readonly announce: number;
  readonly serial: number;
  readonly expected: number;
  readonly slot: number;
  readonly cq: number;
  readonly ring: number;
  readonly solicited: boolean;
  readonly bell: number;
}

export class Transfers {
  readonly #device: ShmDevice;
  readonly #parts = new Float64Array(MOST_PARTS * 4);
  readonly #running: { readonly qp: ShmQueuePair; readonly request: SendRequest }[] = [];
  #handle = 0;
  #words: Block | undefined;
  #reaped = 0;

  constructor(device: ShmDevice) {
    this.#device = device;
  }

  get outstanding(): number {
    return this.#running.length;
  }

  /** Hands over what the mover holds. False when it is in more parts than the thread takes, or 256 transfers wait. */
  start(qp: ShmQueuePair, request: SendRequest, job: TransferJob): boolean {
    const device = this.#device;
    const count = device.mover.parts(this.#parts, job.write);
    if (count < 0) return false;
    if (this.#handle === 0) this.#open();
    const errno = device.door.addon.transferSubmit(
      this.#handle,
      this.#parts,
      count,
      job.pid,
      job.announcement,
      job.announce,
      job.serial,
      job.expected,
      job.slot,
      device.entry,
      job.cq,
      job.ring,
      job.solicited ? 1 : 0,
      job.bell,
    );
    if (errno !== 0) return false;
    this.#running.push({ qp, request });
    return true;
  }

  #open(): void {
    const device = this.#device;
    this.#words = device.arena.take((QUEUE + 1) * 4);
    const at = this.#words.segment.address + this.#words.offset;
    this.#handle = device.door.addon.transferStart(at, at + 4, device.bellFd);
    if (this.#handle < 0) {
      const errno = this.#handle;
      this.#handle = 0;
      throw systemError(errno, 'cannot start the transfer thread');
    }
  }

  /** Takes finished transfers; copies a piece itself when there are none, since the caller would only wait. */
  reap(): void {
    const { door } = this.#device;
    const words = this.#words;
    if (!words) return;
    const { i32 } = words.segment;
    const base = words.offset >> 2;
    if (Atomics.load(i32, base) === this.#reaped) {
      door.command[0] = this.#handle;
      door.addon.transferHelp();
    }
    while (Atomics.load(i32, base) !== this.#reaped) {
      const errno = i32[base + 1 + ((this.#reaped >>> 0) % QUEUE)];
      this.#reaped = (this.#reaped + 1) | 0;
      const { qp, request } = this.#running.shift() as { qp: ShmQueuePair; request: SendRequest };
      if (qp.inTransfer && qp.pending[0] === request) qp.transferred(errno);
    }
  }

  /** Waits until all are done. */
  finish(): void {
    while (this.#running.length > 0) this.reap();
  }

  /** The owner is about to sleep: the thread rings when something finishes. */
  ringAtEnd(): void {
    if (this.#handle !== 0) this.#device.door.addon.transferRingAtEnd(this.#handle, 1);
  }

  close(): void {
    if (this.#running.length > 0) throw new VerbsError('VERBS_BUSY', 'transfers are running');
    if (this.#handle !== 0) this.#device.door.addon.stop(this.#handle);
    this.#handle = 0;
  }
}
