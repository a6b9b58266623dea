/**
 * Gradients of reproducible mode: one vector for each shard, added over all ranks in one fixed order that depends on the shards alone.
 *
 *   own     [ shard 2 | shard 3 ]   at rank 1 of 2, of 4 shards
 *   output  the model's gradients: ((shard 0 + shard 1) + (shard 2 + shard 3)), whoever computed them
 *
 * The untrained state (running averages of batch norms) is averaged over the shards in the same way: every shard starts from the same state.
 */
import type { Communicator } from '../collectives/index.js';
import type { Model } from '../nn/index.js';
import type { Device } from '../verbs/index.js';

export class ShardGradients {
  /** Shards of this rank. */
  readonly own: number;
  readonly #model: Model;
  readonly #communicator: Communicator;
  readonly #device: Device;
  readonly #shards: number;
  readonly #memory: ArrayBuffer;
  readonly #gradients: Float32Array;
  readonly #states: Float32Array;
  readonly #state: Float32Array;

  constructor(model: Model, communicator: Communicator, device: Device, shards: number) {
    this.own = shards / communicator.size;
    this.#model = model;
    this.#communicator = communicator;
    this.#device = device;
    this.#shards = shards;
    const floats = model.gradients.length;
    this.#memory = device.alloc(4 * Math.max(1, floats * this.own));
    this.#gradients = new Float32Array(this.#memory, 0, floats * this.own);
    this.#states = new Float32Array(model.state.length * this.own);
    this.#state = model.state.slice();
  }

  /** Before a shard's forward. */
  begin(): void {
    this.#model.state.set(this.#state);
  }

  /** After its backward: keeps what it left in the model's gradients and state. */
  keep(shard: number): void {
    const { gradients, state } = this.#model;
    this.#gradients.set(gradients, shard * gradients.length);
    this.#states.set(state, shard * state.length);
  }

  /** The model's gradients become the sum over all shards, its state their mean. */
  reduce(): void {
    const { gradients, state } = this.#model;
    this.#communicator.allreduceShardsSync(this.#gradients, gradients, this.#shards, 'sum');
    if (state.length === 0) return;
    this.#communicator.allreduceShardsSync(this.#states, state, this.#shards, 'avg');
    this.#state.set(state);
  }

  close(): void {
    this.#device.free(this.#memory);
  }
}
