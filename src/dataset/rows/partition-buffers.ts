/** Rows on their way into a shuffle: collected by partition, encoded in batches, handed over in runs of bounded size. */

import type { Task } from '../plan/task.js';
import type { ShuffleWriter } from '../shuffle/manager.js';
import { encodeRows } from './codec.js';

const ROWS = 1024;
const MOST_RUN = 64 << 20;

export class PartitionBuffers {
  readonly #writer: ShuffleWriter;
  readonly #task: Task;
  readonly #partitions: number;
  readonly #rows: unknown[][];
  readonly #frames: Uint8Array[][];
  readonly #lengths: Float64Array;
  readonly #runBytes: number;
  #bytes = 0;
  #runs = 0;

  constructor(writer: ShuffleWriter, partitions: number, task: Task) {
    this.#writer = writer;
    this.#task = task;
    this.#partitions = partitions;
    this.#rows = Array.from({ length: partitions }, () => []);
    this.#frames = Array.from({ length: partitions }, () => []);
    this.#lengths = new Float64Array(partitions);
    this.#runBytes = Math.max(1 << 20, Math.min(MOST_RUN, task.services.memory.limit / 16));
  }

  add(partition: number, row: unknown): void {
    const rows = this.#rows[partition];
    if (rows.push(row) >= ROWS) this.#encode(partition);
  }

  #encode(partition: number): void {
    const frame = encodeRows(this.#rows[partition]);
    this.#task.stats.rowsOut += this.#rows[partition].length;
    this.#rows[partition] = [];
    this.#frames[partition].push(frame);
    this.#lengths[partition] += frame.length;
    this.#bytes += frame.length;
    if (this.#bytes >= this.#runBytes) this.#flush();
  }

  #flush(): void {
    const run = this.#writer.run(this.#bytes);
    let at = 0;
    for (const frames of this.#frames) {
      for (const frame of frames) {
        run.bytes.set(frame, at);
        at += frame.length;
      }
      frames.length = 0;
    }
    run.seal(this.#lengths);
    this.#lengths.fill(0);
    this.#bytes = 0;
    this.#runs++;
  }

  /** Hands over what is left. */
  finish(): void {
    for (let partition = 0; partition < this.#partitions; partition++) {
      if (this.#rows[partition].length > 0) this.#encode(partition);
    }
    if (this.#bytes > 0 || this.#runs === 0) this.#flush();
  }
}
