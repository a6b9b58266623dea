/**
 * Layers in a row, over flat memory.
 *
 *   parameters  [ 0.conv2d.weight | 0.conv2d.bias | 3.conv2d.weight | ...... | 7.linear.bias ]     one Float32Array
 *   gradients   [      same ranges as the parameters                                         ]     one Float32Array
 *   state       [ running averages of batch norms ]                                                one Float32Array, not trained
 *
 * Parameters and gradients are memory that the caller may give, such as registered memory: then an all-reduce of the gradient copies
 * nothing. Backward goes from the last layer to the first and tells, layer by layer, which range of the gradient has become final, so
 * that its exchange can start while earlier layers still compute.
 */
import type { Address } from '../native/addon.js';
import { addressOf, copyFloats } from './kernels.js';
import { checkInteger, type Layer, type LayerSpec, type Pass, type Shape, sizeOf } from './layer.js';
import { Random } from './random.js';

export interface ModelOptions {
  /** Shape of one input sample, such as [1, 28, 28]. */
  input: Shape;
  /** The layers, first to last. At least one. */
  layers: readonly LayerSpec[];
  /** The largest batch of a pass; memory is made for it. At least 1. */
  maxBatch: number;
  /** Seed of initial weights and of dropout: an integer of at least 0. Default: 1. */
  seed?: number;
  /**
   * Where parameters and gradients live: called once for each of the two, with the number of floats, and returns zeroed memory of that length.
   * Default: plain Float32Arrays.
   */
  memory?: (floats: number, what: 'parameters' | 'gradients') => Float32Array;
  /** Backward also computes the gradient of the input. Default: false, which saves the first layer's share. */
  inputGradient?: boolean;
}

/** One tensor in the flat arrays: elements `from` up to, not including, `to`. */
export interface ParameterRange {
  /** Such as `0.conv2d.weight`. */
  readonly name: string;
  readonly shape: Shape;
  readonly from: number;
  readonly to: number;
  /** Whether weight decay applies. */
  readonly decay: boolean;
}

export interface ForwardOptions {
  /** Dropout drops, batch norm measures. Default: false. */
  training?: boolean;
  /** Ids of the samples, which seed dropout. Default: 0, 1, 2 ... by place in the batch. */
  samples?: Uint32Array;
  /** Number of the step, which seeds dropout. Default: 0. */
  step?: number;
  /** Sums an array over all ranks in place, for sync batch norm; see Pass.reduce. Default: this process alone. */
  reduce?: (values: Float64Array) => void;
  /** Asked after each layer; true gives the pass up: `forward` throws PassAbandoned. Default: never. */
  isLate?: () => boolean;
}

/** A pass was given up between two layers. What backward has left in the gradients is good for nothing. */
export class PassAbandoned extends Error {
  override readonly name = 'PassAbandoned';
}

export interface BackwardOptions {
  /** Add to the gradients instead of replacing them. Default: false. */
  accumulate?: boolean;
  /** As in forward. */
  isLate?: () => boolean;
  /** Called as soon as elements `from` up to, not including, `to` of the gradients are final; ranges come from the end to the start. */
  onGradient?: (from: number, to: number) => void;
}

interface Placed {
  readonly layer: Layer;
  readonly from: number;
  readonly to: number;
}

export class Model {
  readonly inputShape: Shape;
  readonly outputShape: Shape;
  readonly maxBatch: number;
  readonly parameters: Float32Array;
  readonly gradients: Float32Array;
  /** Untrained state: part of a checkpoint, never of the gradient exchange. */
  readonly state: Float32Array;
  readonly ranges: readonly ParameterRange[];
  readonly #layers: Placed[] = [];
  readonly #samples: Uint32Array;
  readonly #positions: Uint32Array;
  readonly #output: Float32Array;
  readonly #pass: Pass;
  #input: ArrayBufferView | undefined;
  readonly #inputGradient: Float32Array | undefined;

  /** Throws a RangeError when a layer cannot take the shape before it, naming the layer. */
  constructor(options: ModelOptions) {
    const { input, layers, maxBatch, seed = 1, memory = (floats) => new Float32Array(floats), inputGradient = false } = options;
    checkInteger('maxBatch', maxBatch, 1);
    checkInteger('seed', seed, 0);
    for (const size of input) checkInteger('each size of the input shape', size, 1);
    if (layers.length === 0) throw new RangeError('a model needs at least one layer');
    this.inputShape = input;
    this.maxBatch = maxBatch;

    const plans = plan(input, layers);
    this.outputShape = plans[plans.length - 1].output;
    this.ranges = plans.flatMap((one) => one.ranges);
    const total = this.ranges.at(-1)?.to ?? 0;
    this.parameters = checked(memory(total, 'parameters'), total);
    this.gradients = checked(memory(total, 'gradients'), total);
    this.state = new Float32Array(plans.reduce((sum, one) => sum + one.stateSize, 0));
    this.#initialize(plans, seed);
    this.#place(plans, seed, inputGradient);

    this.#samples = new Uint32Array(maxBatch);
    this.#positions = Uint32Array.from({ length: maxBatch }, (_, i) => i);
    this.#output = new Float32Array(maxBatch * sizeOf(this.outputShape));
    this.#inputGradient = inputGradient ? new Float32Array(maxBatch * sizeOf(input)) : undefined;
    this.#pass = {
      batch: 0,
      training: false,
      samples: addressOf(this.#samples),
      step: 0,
      accumulate: false,
      reduce: undefined,
    };
  }

  #initialize(plans: readonly Plan[], seed: number): void {
    let stream = 0;
    let at = 0;
    for (const { spec, input, ranges, stateSize } of plans) {
      const parameters = spec.parameters(input);
      for (const [i, { from, to, shape }] of ranges.entries()) {
        parameters[i].initial(this.parameters.subarray(from, to), shape, new Random(seed, stream++));
      }
      spec.initializeState?.(this.state.subarray(at, at + stateSize));
      at += stateSize;
    }
  }

  #place(plans: readonly Plan[], seed: number, inputGradient: boolean): void {
    const parametersAt = addressOf(this.parameters);
    const gradientsAt = addressOf(this.gradients);
    const firstTrained = inputGradient ? 0 : plans.findIndex(({ ranges }) => ranges.length > 0);
    let state = 0;
    let overInput = false;
    for (const [index, { spec, name, input, output, ranges, stateSize }] of plans.entries()) {
      const layer = spec.create({
        name,
        index,
        input,
        output,
        maxBatch: this.maxBatch,
        parameters: ranges.map(({ from }) => parametersAt + 4 * from),
        gradients: ranges.map(({ from }) => gradientsAt + 4 * from),
        state: this.state.subarray(state, state + stateSize),
        overInput,
        inputGradient: firstTrained >= 0 && (index > firstTrained || inputGradient),
        seed,
      });
      this.#layers.push({ layer, from: ranges[0]?.from ?? 0, to: ranges.at(-1)?.to ?? 0 });
      if (!spec.passesThrough) overInput = !spec.keepsOutput;
      state += stateSize;
    }
  }

  /**
   * Runs `batch` samples. Returns the outputs, [batch, ...outputShape]: a view that the next forward overwrites. The input must stay as it is
   * until backward has run. Throws a RangeError when the batch is larger than maxBatch or the input is shorter than the batch.
   */
  forward(input: Float32Array | Int32Array, batch: number, options: ForwardOptions = {}): Float32Array {
    const { training = false, samples = this.#positions, step = 0, reduce, isLate } = options;
    checkInteger('batch', batch, 1);
    if (batch > this.maxBatch) throw new RangeError(`a batch of ${batch} is larger than maxBatch ${this.maxBatch}`);
    const wanted = batch * sizeOf(this.inputShape);
    if (input.length < wanted) throw new RangeError(`${batch} samples are ${wanted} numbers; the input has ${input.length}`);
    if (samples.length < batch) throw new RangeError(`a batch of ${batch} needs as many sample ids, not ${samples.length}`);
    const pass = this.#pass;
    pass.batch = batch;
    pass.training = training;
    pass.step = step;
    pass.reduce = reduce;
    for (let i = 0; i < batch; i++) this.#samples[i] = samples[i];
    this.#input = input;
    let at: Address = addressOf(input);
    for (const { layer } of this.#layers) {
      at = layer.forward(at, pass);
      if (isLate?.()) throw new PassAbandoned('forward came too late');
    }
    return this.#copyOut(at, this.#output, batch * sizeOf(this.outputShape));
  }

  /**
   * Computes the gradients of the last forward. `gradient` is that of the outputs, [batch, ...outputShape]; it is overwritten. Returns the
   * gradient of the input when the model was made with `inputGradient`.
   */
  backward(gradient: Float32Array, options: BackwardOptions = {}): Float32Array | undefined {
    const { accumulate = false, onGradient, isLate } = options;
    const pass = this.#pass;
    if (this.#input === undefined) throw new Error('backward needs a forward before it');
    const wanted = pass.batch * sizeOf(this.outputShape);
    if (gradient.length < wanted)
      throw new RangeError(`the gradient of the outputs has ${wanted} numbers, not ${gradient.length}`);
    pass.accumulate = accumulate;
    let at: Address = addressOf(gradient);
    for (let i = this.#layers.length - 1; i >= 0; i--) {
      const { layer, from, to } = this.#layers[i];
      at = layer.backward(at, pass);
      if (to > from) onGradient?.(from, to);
      if (at === 0) break;
      if (isLate?.()) throw new PassAbandoned('backward came too late');
    }
    if (this.#inputGradient === undefined) return undefined;
    return this.#copyOut(at, this.#inputGradient, pass.batch * sizeOf(this.inputShape));
  }

  #copyOut(from: Address, to: Float32Array, floats: number): Float32Array {
    copyFloats(from, to, floats);
    return to.subarray(0, floats);
  }
}

interface Plan {
  readonly spec: LayerSpec;
  readonly name: string;
  readonly input: Shape;
  readonly output: Shape;
  readonly ranges: readonly ParameterRange[];
  readonly stateSize: number;
}

function plan(input: Shape, layers: readonly LayerSpec[]): Plan[] {
  const plans: Plan[] = [];
  let shape = input;
  let at = 0;
  for (const [index, spec] of layers.entries()) {
    const name = `${index}.${spec.kind}`;
    let output: Shape;
    try {
      output = spec.outputShape(shape);
    } catch (error) {
      throw new RangeError(`layer ${name}: ${(error as Error).message}`);
    }
    const ranges = spec.parameters(shape).map((parameter) => {
      const from = at;
      at += sizeOf(parameter.shape);
      return { name: `${name}.${parameter.name}`, shape: parameter.shape, from, to: at, decay: parameter.decay };
    });
    plans.push({ spec, name, input: shape, output, ranges, stateSize: spec.stateSize?.(shape) ?? 0 });
    shape = output;
  }
  return plans;
}

function checked(memory: Float32Array, floats: number): Float32Array {
  if (memory.length !== floats) throw new RangeError(`memory() returned ${memory.length} floats instead of ${floats}`);
  return memory;
}
