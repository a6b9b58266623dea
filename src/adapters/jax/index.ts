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
 * update with trees of the same shape. Arrays are f32. @throws RankLost from `update` when a rank died, and what opening throws.
 */
export async function distributed<State, O extends GradientTransformation<State>>(
  optimizer: O & GradientTransformation<State>,
  group: World | Communicator,
  options: DistributedOptions = {},
): Promise<O & Distributed> {
  const flat = await FlatGradients.open(group, options);
  const through = <T extends ArrayTree>(arrays: T, send: (parts: readonly Part[]) => Float32Array[]): T => {
    const [leaves, structure] = tree.flatten<JaxArray>(arrays);
    const shapes = leaves.map(({ shape }) => [...shape]);
    const views = send(leaves.map((leaf) => ({ length: leaf.size, read: () => leaf.dataSync() as ArrayLike<number> })));
    // The flat vector is used again in the next step: jax-js gets numbers of its own.
    return tree.unflatten(
      structure,
      views.map((view, i) => numpy.array(view.slice(), { shape: shapes[i] })),
    ) as T;
  };
  const added: Distributed & Pick<GradientTransformation<State>, 'update'> = {
    update: (updates, state, params) =>
      optimizer.update(
        through(updates, (parts) => flat.reduce(parts)),
        state,
        params,
      ),
    broadcast: (params) => through(params, (parts) => flat.broadcast(parts)),
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
