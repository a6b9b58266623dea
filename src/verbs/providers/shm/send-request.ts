/**
 * A send request on its way: the checked form of a work request, kept while it waits (receiver not ready, peer not connected yet, a transfer running).
 */

import type { Span } from './memory-region.js';
import type { Target } from './target.js';

export class SendRequest {
  /** Position in OPCODES. */
  opcode = 0;
  id = 0;
  signaled = true;
  solicited = false;
  pieces: readonly Span[] = [];
  /** Bytes taken at post, instead of pieces. */
  snapshot: Uint8Array | undefined = undefined;
  /** Bytes in all. */
  length = 0;
  imm = 0;
  remoteAddr = 0;
  rkey = 0;
  addLo = 0;
  addHi = 0;
  swapLo = 0;
  swapHi = 0;
  /** UD and DCI: where to. For a multicast address several. */
  targets: readonly Target[] = [];
  /** Q_Key or DC key named by the request. */
  key = 0;
  /** Local fault found at post: the status it completes with, and why. */
  fault = 0;
  faultWords = '';
  sqPosition = 0;
  /** Retrying: tries so far and the time of the next, milliseconds of performance.now. */
  tries = 0;
  nextTry = 0;
  waitingFor = 0;

  /** The payload: what was taken at post, or a copy of the list. */
  bytes(): Uint8Array {
    if (this.snapshot) return this.snapshot;
    const bytes = new Uint8Array(this.length);
    let at = 0;
    for (const { region, offset, length } of this.pieces) {
      bytes.set(region.u8.subarray(region.start + offset, region.start + offset + length), at);
      at += length;
    }
    return bytes;
  }
}
