/**
 * TensorFlow.js: the user's optimizer, wrapped, trains together with the other ranks.
 *
 * ```ts
 * const optimizer = await distributed(tf.train.adam(1e-3), await init());   // the one line
 * optimizer.broadcast(variables);                                           // all ranks start from those of rank 0
 * model.compile({ optimizer, loss: 'meanSquaredError' });
 * await model.fit(ownShare.inputs, ownShare.targets);                       // every update averages over the ranks
 * ```
 * Works for `optimizer.minimize`, for `applyGradients`, and for models of tfjs-layers. All ranks must make the same number of updates.
 */
import { type NamedTensorMap, type Optimizer, type Tensor, tensor, type Variable } from '@tensorflow/tfjs-core';
import type { NamedTensor } from '@tensorflow/tfjs-core/dist/tensor_types.js';
import type { Communicator } from '../../collectives/index.js';
import type { World } from '../../launch/index.js';
import { type DistributedOptions, FlatGradients } from '../flat-gradients.js';

export type { DistributedOptions } from '../flat-gradients.js';

/** What wrapping adds. */
export interface Distributed {
  /** Sets variables to those of rank 0, at all ranks. The same variables in the same order at all of them. */
  broadcast(variables: readonly Variable[]): void;
}

/**
 * Makes an optimizer average its gradients over all ranks before it applies them: one all-reduce for all of them, on the calling thread. Returns the same
 * optimizer. With `accumulate` the updates in between change nothing. `dispose` also gives up what this holds. All ranks call it. @throws RankLost from updates when a rank died, and what opening throws.
 */
export async function distributed<O extends Optimizer>(
  optimizer: O,
  group: World | Communicator,
  options: DistributedOptions = {},
): Promise<O & Distributed> {
  const gradients = await FlatGradients.open(group, options);
  const variables = await FlatGradients.open(gradients.communicator);
  const apply = optimizer.applyGradients.bind(optimizer);
  const dispose = optimizer.dispose.bind(optimizer);
  const partOf = (one: Tensor) => ({ shape: one.shape, length: one.size, read: () => one.dataSync<'float32'>() });
  return Object.assign(optimizer, {
    applyGradients(named: NamedTensorMap | NamedTensor[]): void {
      const list = Array.isArray(named) ? named : Object.entries(named).map(([name, one]) => ({ name, tensor: one }));
      // A variable that the loss does not depend on has no gradient, at every rank alike.
      const given = list.filter(({ tensor: one }) => one !== null && one !== undefined);
      const means = gradients.reduce(given.map(({ tensor: one }) => partOf(one)));
      if (means === undefined) return;
      const averaged = given.map(({ name, tensor: one }, i) => ({
        name,
        tensor: tensor(means[i].slice(), one.shape, one.dtype),
      }));
      apply(Array.isArray(named) ? averaged : Object.fromEntries(averaged.map((one) => [one.name, one.tensor])));
      for (const { tensor: one } of averaged) one.dispose();
    },
    broadcast(list: readonly Variable[]): void {
      const values = variables.broadcast(list.map(partOf));
      for (const [i, variable] of list.entries()) {
        const value = tensor(values[i].slice(), variable.shape, variable.dtype);
        variable.assign(value);
        value.dispose();
      }
    },
    dispose(): void {
      variables.close();
      gradients.close();
      dispose();
    },
  });
}
