/** What driver and executors tell each other, by active messages: one structured clone each. */

import { deserialize, serialize } from 'node:v8';
import type { Endpoint, Worker } from '../../messaging/index.js';
import type { TaskStats } from '../plan/task.js';
import type { MapPlace, MapStatus } from '../shuffle/manager.js';

/** Handler of the scheduler's messages; others of this layer follow it. */
const HANDLER = 60_100;

export interface TaskAt {
  readonly job: string;
  readonly stage: number;
  readonly partition: number;
  readonly attempt: number;
}

/** What is left of an error on its way to another rank. */
export interface ErrorWords {
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
  readonly stack: string;
  /** The function of the user threw: the attempt after this one looks for the record. */
  readonly isUsers: boolean;
  /** Trying again would not help. */
  readonly isFatal: boolean;
}

export type Message =
  | {
      readonly type: 'task';
      readonly at: TaskAt;
      readonly fingerprint: string;
      readonly batchRows: number;
      /** For each shuffle that it reads: rank and attempt of each map, and the bytes that they have for the task in all. */
      readonly places: readonly (readonly [shuffle: string, places: Int32Array, bytes: number])[];
    }
  | {
      readonly type: 'done';
      readonly at: TaskAt;
      readonly status: MapStatus | undefined;
      readonly value: Uint8Array | undefined;
      readonly additions: ReadonlyMap<number, unknown>;
      readonly kept: readonly (readonly [node: number, partition: number])[];
      readonly stats: TaskStats;
      readonly ms: number;
    }
  | {
      readonly type: 'failed';
      readonly at: TaskAt;
      readonly error: ErrorWords;
      readonly fetch: { readonly shuffle: string; readonly maps: readonly number[] } | undefined;
    }
  | { readonly type: 'cancel'; readonly at: TaskAt; readonly shuffle: string | undefined }
  | { readonly type: 'blocks'; readonly shuffle: string; readonly statuses: readonly MapStatus[] }
  | { readonly type: 'where'; readonly request: number; readonly shuffle: string; readonly place: MapPlace }
  | { readonly type: 'there'; readonly request: number; readonly status: MapStatus | undefined }
  | {
      readonly type: 'end';
      readonly job: string;
      readonly values: readonly Uint8Array[] | undefined;
      readonly error: ErrorWords | undefined;
      readonly additions: ReadonlyMap<number, unknown>;
      readonly report: JobReport | undefined;
    }
  /** The signal of the sender's action says so. */
  | { readonly type: 'abort'; readonly action: string; readonly reason: string }
  /** The sender takes no more tasks. */
  | { readonly type: 'leave' };

/** How a stage of a job went. */
export interface StageReport {
  readonly stage: number;
  readonly tasks: number;
  readonly attempts: number;
  readonly speculative: number;
  readonly recomputed: number;
  /** Tasks that ran where their data was. */
  readonly local: number;
  readonly ms: number;
  readonly rowsOut: number;
  readonly bytesOut: number;
  readonly spilledBytes: number;
  readonly byRank: readonly number[];
}

/** How an action went. */
export interface JobReport {
  readonly job: string;
  readonly ms: number;
  readonly lostRanks: readonly number[];
  readonly stages: readonly StageReport[];
}

/** Sends and takes messages. */
export class Post {
  readonly #worker: Worker;
  readonly #endpoint: (rank: number) => Promise<Endpoint>;
  readonly #rank: number;
  readonly #take: (from: number, message: Message) => void;

  constructor(
    worker: Worker,
    rank: number,
    endpoint: (rank: number) => Promise<Endpoint>,
    take: (from: number, message: Message) => void,
  ) {
    this.#worker = worker;
    this.#rank = rank;
    this.#endpoint = endpoint;
    this.#take = take;
    worker.handle(HANDLER, ({ header, data, length, receive }) => {
      const from = header[0] | (header[1] << 8) | (header[2] << 16);
      if (data) {
        take(from, deserialize(data.slice()) as Message); // a copy: typed arrays in the result are views of what was read
        return undefined;
      }
      const bytes = Buffer.allocUnsafeSlow(length);
      return receive(bytes).then(
        () => take(from, deserialize(bytes) as Message),
        () => undefined, // the sender is gone
      );
    });
  }

  /** Resolves when it is sent. Never rejects: a rank that is gone is noticed elsewhere. Returns whether it was sent. */
  async send(to: number, message: Message): Promise<boolean> {
    if (to === this.#rank) {
      const copy = deserialize(serialize(message)) as Message;
      setImmediate(() => this.#take(to, copy));
      return true;
    }
    try {
      const endpoint = await this.#endpoint(to);
      const header = Uint8Array.of(this.#rank & 255, (this.#rank >> 8) & 255, this.#rank >> 16);
      await endpoint.am(HANDLER, header, serialize(message), { timeoutMs: Number.POSITIVE_INFINITY }); // ends when the rank does
      return true;
    } catch {
      return false;
    }
  }

  /** From now on messages are dropped: ranks that are not so far yet may still send some. */
  close(): void {
    if (!this.#worker.closed) this.#worker.handle(HANDLER, () => {});
  }
}
