/** What the bucket plan is made from: when gradients become final, and what their exchange is expected to take. */
import type { Communicator } from '../collectives/index.js';
import type { Model } from '../nn/index.js';
import { sizeOf } from '../nn/layer.js';
import type { ReadyRange } from './buckets.js';
import { nowMs } from './clock.js';

/** When each layer's gradient is final, from one dry pass over zeros: parameters and state stay as they are. */
export function measureBackward(model: Model): ReadyRange[] {
  const inputs = new Float32Array(model.maxBatch * sizeOf(model.inputShape));
  const gradient = new Float32Array(model.maxBatch * sizeOf(model.outputShape));
  const state = model.state.slice();
  let ranges: ReadyRange[] = [];
  for (let turn = 0; turn < 2; turn++) {
    ranges = [];
    // Embeddings read their input as integers: zeros are zeros in both.
    model.forward(inputs, model.maxBatch, { training: true });
    const begin = nowMs();
    model.backward(gradient, { onGradient: (from, to) => ranges.push({ from, to, readyMs: nowMs() - begin }) });
  }
  model.state.set(state);
  return ranges;
}

/** What the communicator expects an all-reduce to take, ms. */
export function allreduceCost(communicator: Communicator): (bytes: number) => number {
  return (bytes) => {
    if (communicator.size === 1) return 0;
    const { selection } = communicator.explain('allreduce', bytes);
    const chosen = selection?.candidates.find(({ name }) => name === selection.algorithm.name);
    return 1e3 * (chosen?.seconds ?? 3e-6);
  };
}
