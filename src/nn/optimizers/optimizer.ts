/**
 * What an optimizer is: an update of flat parameters by flat gradients, range by range, in place, in C.
 *
 * Ranges tell tensors apart (LAMB sets the step of each) and which of them decay. State is one flat array of a few floats for each parameter,
 * so that a checkpoint is a copy and a shard of an optimizer is a sub-range.
 */
import type { ParameterRange } from '../model.js';

/** What optimizers need of a model. */
export interface Trained {
  readonly parameters: Float32Array;
  readonly gradients: Float32Array;
  readonly ranges: readonly ParameterRange[];
  /**
   * Calls an update of a range: the kernel's number, its options, then the addresses of parameters, gradients and state, and the length. Default: `run` of kernels.ts. A
   * parameter server adds gradients up before it and delivers after it. Not used by LAMB, which looks at whole tensors.
   */
  readonly run?: (kernel: number, ...numbers: number[]) => void;
}

export interface Optimizer {
  /** Such as `sgd`. */
  readonly kind: string;
  /** Steps done. Part of a checkpoint; set it when one is restored. */
  steps: number;
  /** Moments and velocities. Part of a checkpoint. */
  readonly state: Float32Array;
  /** One update with this learning rate. */
  step(learningRate: number): void;
}

/** Throws a RangeError unless the option is in [least, below). */
export function checkRange(what: string, value: number, least: number, below: number): void {
  if (!(value >= least && value < below)) throw new RangeError(`${what} must be in [${least}, ${below}), not ${value}`);
}
