/**
 * What a layer is.
 *
 * A layer is described first and made later. The description (`LayerSpec`) is a plain value: it says what shape comes out, which parameters it
 * wants and how they start. The model adds up the parameters of all descriptions, lays them into one flat array, and then makes the layers
 * (`create`), each knowing the addresses of its own ranges.
 *
 * There is no tensor class and no graph: between layers travels the address of a batch of samples, each of the layer's shape, row-major.
 * A layer owns the memory of its output and of its input gradient, made once for the largest batch, so a step allocates nothing.
 *
 *   forward:   input ──> layer 0 ──> layer 1 ──> ... ──> output
 *   backward:  (dx) <── layer 0 <── layer 1 <── ... <── gradient of the output;   each layer also writes its range of the flat gradient
 */
import type { Address } from '../native/addon.js';
import type { Initializer } from './initializers.js';

/** Sizes of one sample, without the batch. */
export type Shape = readonly number[];

/** One trained tensor of a layer. */
export interface ParameterSpec {
  /** Its name inside the layer, such as `weight`. */
  readonly name: string;
  readonly shape: Shape;
  readonly initial: Initializer;
  /** Whether weight decay applies. Biases and the gains of normalisations are usually left alone. */
  readonly decay: boolean;
}

/** What one pass over a batch needs to know. */
export interface Pass {
  /** Samples in this batch, at most the model's maxBatch. */
  batch: number;
  /** Training: dropout drops, batch norm uses the batch's statistics. */
  training: boolean;
  /** Address of the batch's sample ids (u32), which seed dropout. */
  samples: Address;
  /** Number of the step, which seeds dropout. */
  step: number;
  /** Backward adds to the gradients instead of replacing them. */
  accumulate: boolean;
  /**
   * Sums the array over all ranks, in place, before it returns: makes batch norm normalise over the batch of all ranks. Every rank calls it
   * the same number of times with the same length. Undefined: this process alone.
   */
  reduce: ((values: Float64Array) => void) | undefined;
}

/** Where a layer stands in a model. */
export interface Site {
  /** Its name in the model, such as `2.conv2d`. */
  readonly name: string;
  /** Its place in the model, which tells the dropouts apart. */
  readonly index: number;
  readonly input: Shape;
  readonly output: Shape;
  readonly maxBatch: number;
  /** Addresses in the flat arrays, in the order of `parameters`. */
  readonly parameters: readonly Address[];
  readonly gradients: readonly Address[];
  /** The layer's part of the model's untrained state. */
  readonly state: Float32Array;
  /** The output may be written over the input: nobody reads the input again. */
  readonly overInput: boolean;
  /** Backward must produce a gradient of the input. */
  readonly inputGradient: boolean;
  readonly seed: number;
}

export interface Layer {
  /** Returns where the output lies. */
  forward(input: Address, pass: Pass): Address;
  /** After a forward of the same pass. May overwrite `gradient`. Returns where the input's gradient lies; 0 when the site wants none. */
  backward(gradient: Address, pass: Pass): Address;
}

/** A layer before it has memory: what a model is described by. */
export interface LayerSpec {
  /** What it is, such as `linear`. */
  readonly kind: string;
  /** The shape that comes out of a shape. Throws when the layer cannot take it, and says what it can. */
  outputShape(input: Shape): Shape;
  parameters(input: Shape): readonly ParameterSpec[];
  /** Floats of state that are saved with the model but not trained. Default: 0. */
  stateSize?(input: Shape): number;
  /** How that state starts. Default: zeros. */
  initializeState?(state: Float32Array): void;
  /** Backward reads the layer's own output, so the next layer may not write over it. Default: false. */
  readonly keepsOutput?: boolean;
  /** The output is the input, unmoved. Default: false. */
  readonly passesThrough?: boolean;
  create(site: Site): Layer;
}

/** Elements of a shape. */
export function sizeOf(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Throws a RangeError unless `value` is an integer in the range. `what` names the option. */
export function checkInteger(what: string, value: number, least: number): void {
  if (!Number.isSafeInteger(value) || value < least)
    throw new RangeError(`${what} must be an integer of at least ${least}, not ${value}`);
}
