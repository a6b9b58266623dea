/**
 * Tag matching, whatever the engine: receives that wait for messages, messages that wait for receives. Where a message lies that came before its receive is
 * the engine's affair; here it is a number.
 */

import type { Endpoint } from '../endpoint.js';
import type { Probed, Tags } from '../engine.js';
import { MessagingError } from '../errors.js';
import type { Payload } from '../payload.js';
import { KIND_RECV, PENDING, RequestRow, type RequestTable } from '../requests.js';
import { PostedReceives, type UnexpectedEntry, UnexpectedMessages } from './match-queue.js';

export abstract class TagMatching<E extends Endpoint> implements Tags {
  protected readonly requests: RequestTable;
  /** Receives that wait. */
  protected readonly receives = new PostedReceives(new RequestRow(-1));
  /** Messages that wait. */
  protected readonly unexpected: UnexpectedMessages = new UnexpectedMessages();

  constructor(requests: RequestTable) {
    this.requests = requests;
  }

  abstract send(endpoint: E, payload: Payload, context: number, lo: number, hi: number): RequestRow | undefined;

  /** Length of a message that waits. */
  protected abstract lengthOf(kept: number): number;
  /** Gives a message that waited to a receive, which has its tag already. */
  protected abstract takeKept(row: RequestRow, kept: number): void;
  /** Whether it is an announcement of this endpoint: its bytes are still with the peer. */
  protected abstract isAnnouncedBy(kept: number, endpoint: E): boolean;
  protected abstract dropKept(kept: number): void;

  /** Receives that wait. */
  get posted(): number {
    return this.receives.count;
  }

  receive(payload: Payload, context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): RequestRow {
    const row = this.requests.begin(KIND_RECV, payload);
    row.context = context;
    row.tagLo = lo;
    row.tagHi = hi;
    row.maskLo = maskLo;
    row.maskHi = maskHi;
    row.source = source;
    if (this.unexpected.count === 0 || !this.#takeUnexpected(row)) this.await(row);
    return row;
  }

  /** A receive waits for its message. */
  protected await(row: RequestRow): void {
    this.receives.add(row);
  }

  /** Gives the oldest message that waits for such a receive to it. False when there is none. */
  #takeUnexpected(row: RequestRow): boolean {
    const { unexpected } = this;
    const entry = unexpected.find(row.context, row.tagLo, row.tagHi, row.maskLo, row.maskHi, row.source);
    if (entry === undefined) return false;
    row.tagLo = entry.tagLo;
    row.tagHi = entry.tagHi;
    this.takeKept(row, unexpected.take(entry));
    return true;
  }

  /** The receive that a message goes to: it waits no more, and has the message's tag and source. Undefined when there is none. */
  protected match(context: number, lo: number, hi: number, source: number): RequestRow | undefined {
    const { receives } = this;
    const row = receives.find(context, lo, hi, source);
    if (row === receives.end) return undefined;
    receives.remove(row);
    row.tagLo = lo;
    row.tagHi = hi;
    row.source = source;
    return row;
  }

  probe(context: number, lo: number, hi: number, maskLo: number, maskHi: number, source: number): Probed | undefined {
    const entry = this.unexpected.find(context, lo, hi, maskLo, maskHi, source);
    return entry && { length: this.lengthOf(entry.kept), tagLo: entry.tagLo, tagHi: entry.tagHi, source: entry.source, entry };
  }

  claim(probed: Probed): number {
    return this.unexpected.take(probed.entry);
  }

  receiveClaimed(payload: Payload, probed: Probed, kept: number): RequestRow {
    const row = this.requests.begin(KIND_RECV, payload);
    row.tagLo = probed.tagLo;
    row.tagHi = probed.tagHi;
    row.source = probed.source;
    this.takeKept(row, kept);
    return row;
  }

  cancel(row: RequestRow, error: Error = new MessagingError('MSG_CANCELLED', 'the receive was cancelled')): boolean {
    if (!row.isQueued || row.state !== PENDING) return false;
    this.receives.remove(row);
    this.requests.fail(row, error);
    return true;
  }

  /** Takes back the receives that only this source could serve. */
  receivesFrom(source: number): RequestRow[] {
    const { receives } = this;
    const rows: RequestRow[] = [];
    for (let row = receives.oldest; row !== receives.end; row = row.next) if (row.source === source) rows.push(row);
    for (const row of rows) receives.remove(row);
    return rows;
  }

  /** Drops announcements of a peer that is gone: their bytes are gone too. */
  dropRendezvousOf(endpoint: E): void {
    const { unexpected } = this;
    const dropped: UnexpectedEntry[] = [];
    for (let entry = unexpected.oldest; entry !== unexpected.end; entry = entry.next) {
      if (this.isAnnouncedBy(entry.kept, endpoint)) dropped.push(entry);
    }
    for (const entry of dropped) this.dropKept(unexpected.take(entry));
  }
}
