/** A prepared receive request: posts ranges of one region, without an object each. */

import { ACCESS_LOCAL_WRITE } from '../../access.js';
import { VerbsError } from '../../errors.js';
import { type PreparedRecv, rejectRange } from '../../work-request.js';
import { ShmMemoryRegion } from './memory-region.js';
import type { ShmQueuePair } from './queue-pair.js';
import type { ReceiveRing } from './receive-ring.js';

export class ShmPreparedRecv implements PreparedRecv {
  readonly #qp: ShmQueuePair | undefined;
  readonly #ring: ReceiveRing;
  readonly #region: ShmMemoryRegion;

  /** @param qp undefined for a shared receive queue. */
  constructor(qp: ShmQueuePair | undefined, ring: ReceiveRing, region: ShmMemoryRegion) {
    if (!(region instanceof ShmMemoryRegion) || !(region.access & ACCESS_LOCAL_WRITE)) {
      throw new VerbsError('VERBS_INVALID', 'receives need a region of this device that allows local write');
    }
    qp?.checkRecv(0, 'INIT');
    this.#qp = qp;
    this.#ring = ring;
    this.#region = region;
  }

  post(offset: number, length: number, id: number): void {
    const region = this.#region;
    if (!(offset >= 0 && length >= 0 && offset + length <= region.length)) rejectRange(offset, length, region.length);
    const qp = this.#qp;
    if (!region.live || (qp !== undefined && (qp.closed || qp.state === 'RESET'))) {
      if (!region.live) throw new VerbsError('VERBS_INVALID', 'the region is deregistered', { badIndex: 0 });
      qp?.checkRecv(0);
    }
    this.#ring.postOne(region, offset, length, id);
  }
}
