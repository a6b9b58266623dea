/**
 * RPC without a server: the answer lies in the server's memory at a place that the client can compute, and the client READs it. The server's CPU does
 * nothing at all, so it serves while it computes, sleeps or collects garbage. What cannot be computed by the client needs one of the other forms.
 */

import type { Device, MemoryRegion, PreparedSend, ProtectionDomain, QueuePair, RemoteRegion } from '../../verbs/index.js';
import { WorkCompletions } from '../../verbs/work-completions.js';

/** The client's side of a table of records of equal size. */
export class OneSidedTable {
  readonly recordBytes: number;
  readonly #qp: QueuePair;
  readonly #landing: MemoryRegion;
  readonly #read: PreparedSend;
  readonly #count: number;
  readonly #wcs = new WorkCompletions(4);
  #isHere = false;

  /** @param table the server's records, one after the other, registered for remote read. */
  constructor(device: Device, pd: ProtectionDomain, qp: QueuePair, table: RemoteRegion, recordBytes: number) {
    this.recordBytes = recordBytes;
    this.#qp = qp;
    this.#count = Math.floor(table.length / recordBytes);
    this.#landing = pd.register(device.alloc(Math.max(64, recordBytes)), { localWrite: true });
    this.#read = qp.prepare({ opcode: 'RDMA_READ', local: this.#landing, remote: table });
  }

  /** Begins to read a record. One at a time. Throws RangeError for a record that is not there. */
  call(record: number): void {
    if (!(Number.isInteger(record) && record >= 0 && record < this.#count)) {
      throw new RangeError(`the table has records 0 to ${this.#count - 1}: got ${record}`);
    }
    this.#isHere = false;
    this.#read.post(0, this.recordBytes, 1, record * this.recordBytes);
  }

  /** Makes progress. Returns 1 when the record is here. Throws when the connection is broken. */
  poll(): number {
    const { sendCq } = this.#qp;
    if (sendCq.poll(this.#wcs) === 0) return 0;
    if (this.#wcs.status[0] !== 0)
      throw new Error(`the READ failed: ${sendCq.cause(this.#wcs.causeId[0])?.words ?? 'no cause given'}`);
    this.#isHere = true;
    return 1;
  }

  /** The record read last, or undefined while it has not come. Valid until the next call. */
  get reply(): Uint8Array | undefined {
    return this.#isHere ? this.#landing.bytes.subarray(0, this.recordBytes) : undefined;
  }
}
