/**
 * Tag matching, whatever the engine: receives that wait for messages, messages that wait for receives. Where a message lies that came before its receive is
 * the engine's affair; here it is a number.
 */

import type { Endpoint } from '../endpoint.js';
import type { Probed, Tags } from '../engine.js';
import { MessagingError } from '../errors.js';
import type { Payload } from '../payload.js';
import { KIND_RECV, PENDING, type RequestTable } from '../requests.js';
import { PostedReceives, UnexpectedMessages } from './match-queue.js';

export abstract class TagMatching<E extends Endpoint> implements Tags {
  protected readonly requests: RequestTable;
  /** Receives that wait: their values are rows of requests. */
  protected readonly receives: PostedReceives = new PostedReceives();
  /** Messages that wait: their values are the engine's numbers of them. */
  protected readonly unexpected: UnexpectedMessages = new UnexpectedMessages();

  constructor(requests: RequestTable) {
    this.requests = requests;
  }

  abstract send(endpoint: E, payload: Payload, context: number, lo: number, hi: number): number;

  /** Length of a message that waits. */
  protected abstract lengthOf(kept: number): number;
  /** Gives a message that waited to a receive, which has its tag already. */
  protected abstract takeKept(index: number, kept: number): void;
  /** Whether it is an announcement of this endpoint: its bytes are still with the peer. */
  protected abstract isAnnouncedBy(kept: number, endpoint: E): boolean;
  protected abstract dropKept(kept: number): void;

  /** Receives that wait. */
  get posted(): number {
    return this.receives.count;
  }

  /** Begins a receive; returns the row of its request, which may be complete already. */
  receive(payload: Payload, context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): number {
    const index = this.begin(payload, context, lo, hi, source);
    if (this.unexpected.count > 0 && this.takeUnexpected(index, context, lo, hi, maskLo, maskHi, source)) return index;
    this.requests.aux[index] = this.receives.add(context, lo, hi, maskLo, maskHi, source, index);
    return index;
  }

  protected begin(payload: Payload, context: number, lo: number, hi: number, source: number): number {
    const { requests } = this;
    const index = requests.begin(KIND_RECV, payload);
    requests.context[index] = context;
    requests.tagLo[index] = lo;
    requests.tagHi[index] = hi;
    requests.source[index] = source;
    return index;
  }

  /** Gives the oldest message that waits for such a receive to it. False when there is none. */
  protected takeUnexpected(
    index: number,
    context: number,
    lo: number,
    hi: number,
    maskLo: number,
    maskHi: number,
    source: number,
  ): boolean {
    const { unexpected, requests } = this;
    const row = unexpected.find(context, lo, hi, maskLo, maskHi, source);
    if (row < 0) return false;
    requests.tagLo[index] = unexpected.tagLo(row);
    requests.tagHi[index] = unexpected.tagHi(row);
    const kept = unexpected.value(row);
    unexpected.remove(row);
    this.takeKept(index, kept);
    return true;
  }

  /** The receive that a message goes to waits no more; it has the message's tag and source. Returns the row of its request, or -1 when there is none. */
  protected match(context: number, lo: number, hi: number, source: number): number {
    const row = this.receives.find(context, lo, hi, source);
    return row < 0 ? -1 : this.matched(row, lo, hi, source);
  }

  /** The same for a receive that was found. */
  protected matched(row: number, lo: number, hi: number, source: number): number {
    const { receives, requests } = this;
    const index = receives.value(row);
    receives.remove(row);
    requests.tagLo[index] = lo;
    requests.tagHi[index] = hi;
    requests.source[index] = source;
    requests.aux[index] = -1;
    return index;
  }

  probe(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): Probed | undefined {
    const { unexpected } = this;
    const row = unexpected.find(context, lo, hi, maskLo, maskHi, source);
    if (row < 0) return undefined;
    return {
      length: this.lengthOf(unexpected.value(row)),
      tagLo: unexpected.tagLo(row),
      tagHi: unexpected.tagHi(row),
      source: unexpected.source(row),
      row,
    };
  }

  claim(probed: Probed): number {
    const kept = this.unexpected.value(probed.row);
    this.unexpected.remove(probed.row);
    return kept;
  }

  receiveClaimed(payload: Payload, context: number, probed: Probed, kept: number): number {
    const index = this.begin(payload, context, probed.tagLo, probed.tagHi, probed.source);
    this.takeKept(index, kept);
    return index;
  }

  cancel(index: number, error: Error = new MessagingError('MSG_CANCELLED', 'the receive was cancelled')): boolean {
    const { requests } = this;
    if (requests.kind[index] !== KIND_RECV || requests.state[index] !== PENDING || requests.aux[index] < 0) return false;
    this.receives.remove(requests.aux[index]);
    requests.fail(index, error);
    return true;
  }

  /** Takes back the receives that only this source could serve. */
  receivesFrom(source: number): number[] {
    const { receives } = this;
    const rows: number[] = [];
    for (let row = receives.oldest; row >= 0; row = receives.after(row)) {
      if (receives.source(row) === source) rows.push(row);
    }
    return rows.map((row) => {
      const index = receives.value(row);
      receives.remove(row);
      this.requests.aux[index] = -1; // whoever hears of the first failure may cancel the others
      return index;
    });
  }

  /** Drops announcements of a peer that is gone: their bytes are gone too. */
  dropRendezvousOf(endpoint: E): void {
    const { unexpected } = this;
    for (let row = unexpected.oldest; row >= 0; ) {
      const next = unexpected.after(row);
      const kept = unexpected.value(row);
      if (this.isAnnouncedBy(kept, endpoint)) {
        unexpected.remove(row);
        this.dropKept(kept);
      }
      row = next;
    }
  }
}
