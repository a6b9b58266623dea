/**
 * jax-js: the user's optimizer, wrapped, trains together with the other ranks.
 *
 * ```ts
 * const optimizer = await distributed(adam(1e-3), await init());        // the one line
 * let params = optimizer.broadcast(initialParameters());                // all ranks start from those of rank 0
 * let state = optimizer.init(tree.ref(params));
 * const grads = grad(loss)(tree.ref(params), ownBatch);
 * [updates, state] = optimizer.update(grads, state, tree.ref(params));  // gradients are averaged over the ranks first
 * ```
 * An optimizer is what optax calls a gradient transformation: `init` and `update`. As everywhere in jax-js, arrays that are passed in are used up.
 */
import { type Array as JaxArray, type JsTree, numpy, tree } from '@jax-js/jax';
import type { Communicator } from '../../collectives/index.js';
import type { World } from '../../launch/index.js';
import { type DistributedOptions, FlatGradients, type Part } from '../flat-gradients.js';

export type { DistributedOptions } from '../flat-gradients.js';

/** A tree of arrays: parameters, or their gradients. */
export type ArrayTree = JsTree<JaxArray>;

/** What is wrapped: optax's interface. */
export interface GradientTransformation<State> {
  init(params: ArrayTree): State;
  update(updates: ArrayTree, state: State, params?: ArrayTree): [updates: ArrayTree, state: State];
}

/** What wrapping adds. */
export interface Distributed {
  /** Parameters of rank 0, at all ranks. Uses up its argument. */
  broadcast<T extends ArrayTree>(params: T): T;
  /** Gives up what the wrapper holds. */
  close(): void;
}

/**
 * Wraps an optimizer so that `update` averages the gradients over all ranks first: one all-reduce for the whole tree, on the calling thread. All ranks call it, and
 * update with trees of the same shape. With `accumulate` the updates in between are zeros, and the state stays as it is. Arrays are f32. @throws RankLost from `update` when a rank died, and what opening throws.
 */
export async function distributed<State, O extends GradientTransformation<State>>(
  optimizer: O & GradientTransformation<State>,
  group: World | Communicator,
  options: DistributedOptions = {},
): Promise<O & Distributed> {
  const flat = await FlatGradients.open(group, options);
  /** Arrays of the same tree with what `send` made of their numbers; zeros where it made nothing yet. */
  const through = <T extends ArrayTree>(arrays: T, send: (parts: readonly Part[]) => Float32Array[] | undefined) => {
    const [leaves, structure] = tree.flatten<JaxArray>(arrays);
    const parts = leaves.map((leaf) => ({
      shape: [...leaf.shape],
      length: leaf.size,
      read: () => leaf.dataSync() as ArrayLike<number>,
    }));
    const views = send(parts);
    // The flat vector is used again in the next step: jax-js gets numbers of its own.
    const made = parts.map(({ shape }, i) =>
      views === undefined ? numpy.zeros(shape) : numpy.array(views[i].slice(), { shape }),
    );
    return { arrays: tree.unflatten(structure, made) as T, isWhole: views !== undefined };
  };
  const added: Distributed & Pick<GradientTransformation<State>, 'update'> = {
    update(updates, state, params) {
      const { arrays, isWhole } = through(updates, (parts) => flat.reduce(parts));
      if (isWhole) return optimizer.update(arrays, state, params);
      tree.dispose(params);
      return [arrays, state];
    },
    broadcast: (params) => through(params, (parts) => flat.broadcast(parts)).arrays,
    close: () => flat.close(),
  };
  return new Proxy(optimizer, {
    get(target, key) {
      if (Object.hasOwn(added, key)) return added[key as keyof typeof added];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  }) as O & Distributed;
}
