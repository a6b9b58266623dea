/**
 * What workers and servers say to each other: short active messages, which the sender writes into a ring of the receiver. Numbers only; gradients and
 * parameters never travel in a message: the server reads the gradient where backward wrote it, the worker reads the shard where the optimizer wrote it.
 *
 * ```
 *   worker                                              server
 *   JOIN worker, shard, failover  + keys of gradient and parameters ──>
 *                        <── JOINED shard               + key of the shard's parameters
 *   (worker 0 WRITEs the initial parameters)
 *   INIT shard, steps    + state of its optimizer   ──>
 *                        <── READY shard
 *   PUSH worker, shard, step, weight, rate          ──> READ or map the gradient, apply, WRITE to the replica
 *                        <── GRANT shard, step, delivered or LATE, weight, next step
 *   (pull: READ of the shard)
 *   STATE shard                                     ──>
 *                        <── STATE shard, steps         + state of its optimizer
 *   LEAVE worker                                    ──>
 *
 *   server                                              server with the replica
 *   REPLICATE shard, bytes                          ──>
 *                        <── REPLICA shard              + key of the replica
 * ```
 * A header is six 64-bit floats.
 */

import type { ActiveMessage } from '../../messaging/index.js';

export const HANDLER = { toServer: 1, toClient: 2 } as const;

export const KIND = {
  join: 1,
  joined: 2,
  init: 3,
  ready: 4,
  push: 5,
  grant: 6,
  leave: 7,
  replicate: 8,
  replica: 9,
  state: 10,
} as const;

/** In a grant: the push came when its step was over, and was dropped. */
export const LATE = -1;

/** Fields of every header: kind, shard, then what the picture above names. */
export function header(kind: number, shard: number, a = 0, b = 0, c = 0, d = 0): Uint8Array {
  return new Uint8Array(Float64Array.of(kind, shard, a, b, c, d).buffer);
}

/** Header and payload of a message, to keep. A large payload is fetched first: `act` runs at once, or when it is there. */
export function take(message: ActiveMessage, act: (words: Float64Array, data: Uint8Array) => void): Promise<void> | undefined {
  const words = readHeader(message.header);
  if (message.data !== undefined || message.length === 0) {
    act(words, message.data?.slice() ?? new Uint8Array(0));
    return undefined;
  }
  const data = new Uint8Array(message.length);
  return message.receive(data).then(() => act(words, data));
}

/** The numbers of a header that lies anywhere in memory. */
function readHeader(bytes: Uint8Array): Float64Array {
  return new Float64Array(bytes.slice().buffer);
}
