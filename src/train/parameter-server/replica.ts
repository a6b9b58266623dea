/**
 * A replica: the state of a shard in the memory of another server, kept up to date by one-sided WRITEs before any worker hears that a step is done.
 *
 * ```
 *   slot of even versions                                    slot of odd versions
 *   +---------+-------+--------+------------+-------+        +---------+ ...
 *   | version | steps | clocks | parameters | state |        | version | ...
 *   +---------+-------+--------+------------+-------+
 *        ^ written last, by a request of its own
 * ```
 * A server that dies in the middle of a WRITE leaves one slot half-written and without its version; the other slot holds the version before. The clocks say which
 * pushes are in it, so a worker that pushes again what was applied already is only told so.
 */
import type { Endpoint, RemoteMemory } from '../../messaging/index.js';
import type { Shard } from './shard.js';

const VERSION = 0;
const STEPS = 1;
const CLOCKS = 2;

const aligned = (bytes: number): number => Math.ceil(bytes / 64) * 64;

/** Sizes of a replica, the same at both servers. */
export interface ReplicaShape {
  readonly workers: number;
  readonly parameters: number;
  readonly state: number;
}

function slotBytes({ workers, parameters, state }: ReplicaShape): number {
  return aligned(8 * (CLOCKS + workers)) + aligned(4 * parameters) + aligned(4 * state);
}

/** Bytes that a replica takes. */
export function replicaBytes(shape: ReplicaShape): number {
  return 2 * slotBytes(shape);
}

/** The side of the server that has the shard. */
export class ReplicaWriter {
  readonly #remote: RemoteMemory;
  readonly #endpoint: Endpoint;
  readonly #shape: ReplicaShape;
  readonly #head: Float64Array;
  #writes = 0;

  constructor(endpoint: Endpoint, key: Uint8Array, shape: ReplicaShape) {
    this.#endpoint = endpoint;
    this.#remote = endpoint.unpack(key);
    this.#shape = shape;
    this.#head = new Float64Array(CLOCKS + shape.workers);
  }

  /** Resolves when the replica has the shard as it is. The shard must not change meanwhile. @throws PeerLost when the other server is gone or has taken over. */
  async write(shard: Shard): Promise<void> {
    const { workers, parameters } = this.#shape;
    const version = ++this.#writes;
    const at = (version & 1) * slotBytes(this.#shape);
    const data = at + aligned(8 * (CLOCKS + workers));
    await this.#remote.put(data, shard.parameters);
    if (shard.optimizer.state.length > 0) await this.#remote.put(data + aligned(4 * parameters), shard.optimizer.state);
    const head = this.#head;
    head[STEPS] = shard.optimizer.steps;
    head.set(shard.clocks, CLOCKS);
    await this.#remote.put(at + 8 * STEPS, head.subarray(STEPS));
    head[VERSION] = version;
    await this.#remote.put(at, head.subarray(VERSION, STEPS));
    await this.#endpoint.flush();
    this.#endpoint.check();
  }
}

/** Fills a shard with the newest state that is complete. False when nothing was ever written. */
export function restoreReplica(memory: Uint8Array, shape: ReplicaShape, shard: Shard): boolean {
  const { workers, parameters, state } = shape;
  const head = (slot: number) => new Float64Array(memory.buffer, memory.byteOffset + slot * slotBytes(shape), CLOCKS + workers);
  const slot = head(1)[VERSION] > head(0)[VERSION] ? 1 : 0;
  const newest = head(slot);
  if (newest[VERSION] === 0) return false;
  const data = memory.byteOffset + slot * slotBytes(shape) + aligned(8 * (CLOCKS + workers));
  shard.parameters.set(new Float32Array(memory.buffer, data, parameters));
  shard.optimizer.state.set(new Float32Array(memory.buffer, data + aligned(4 * parameters), state));
  shard.optimizer.steps = newest[STEPS];
  shard.clocks.set(newest.subarray(CLOCKS));
  return true;
}
