/**
 * y = x W^T + b over the last dimension: [..., in] becomes [..., out]. The weight is [out, in], as PyTorch and safetensors files keep it.
 *
 * Three matrix products: forward x W^T, backward dW = dy^T x and dx = dy W.
 */
import { constant, heNormal, type Initializer } from '../initializers.js';
import { Block, KERNEL, run } from '../kernels.js';
import { checkInteger, type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

export interface LinearOptions {
  /** Add a bias. Default: true. */
  bias?: boolean;
  /** Start of the weight. Default: heNormal. The bias starts at 0. */
  initial?: Initializer;
}

/** A linear layer with `outputs` outputs (at least 1). */
export function linear(outputs: number, options: LinearOptions = {}): LayerSpec {
  checkInteger('outputs of a linear layer', outputs, 1);
  const { bias = true, initial = heNormal } = options;
  return {
    kind: 'linear',
    outputShape(input) {
      if (input.length === 0) throw new RangeError('a linear layer needs at least one dimension');
      return [...input.slice(0, -1), outputs];
    },
    parameters(input) {
      const weight = { name: 'weight', shape: [outputs, input[input.length - 1]], initial, decay: true };
      return bias ? [weight, { name: 'bias', shape: [outputs], initial: constant(0), decay: false }] : [weight];
    },
    create: (site) => new Linear(site, bias),
  };
}

class Linear implements Layer {
  readonly #site: Site;
  readonly #bias: boolean;
  readonly #inputs: number;
  readonly #outputs: number;
  readonly #rows: number;
  readonly #output: Block;
  readonly #gradient: Block;
  #input = 0;

  constructor(site: Site, bias: boolean) {
    this.#site = site;
    this.#bias = bias;
    this.#inputs = site.input[site.input.length - 1];
    this.#outputs = site.output[site.output.length - 1];
    this.#rows = sizeOf(site.input) / this.#inputs;
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.output));
    this.#gradient = Block.zeros(site.inputGradient ? site.maxBatch * sizeOf(site.input) : 0);
  }

  forward(input: number, pass: Pass): number {
    const rows = pass.batch * this.#rows;
    const inputs = this.#inputs;
    const outputs = this.#outputs;
    const { parameters } = this.#site;
    this.#input = input;
    run(KERNEL.sgemm, 0, 1, rows, outputs, inputs, 1, input, inputs, parameters[0], inputs, 0, this.#output.address, outputs);
    if (this.#bias) run(KERNEL.biasForward, this.#output.address, parameters[1], rows, outputs);
    return this.#output.address;
  }

  backward(gradient: number, pass: Pass): number {
    const rows = pass.batch * this.#rows;
    const inputs = this.#inputs;
    const outputs = this.#outputs;
    const { parameters, gradients, inputGradient } = this.#site;
    const add = pass.accumulate ? 1 : 0;
    run(KERNEL.sgemm, 1, 0, outputs, inputs, rows, 1, gradient, outputs, this.#input, inputs, add, gradients[0], inputs);
    if (this.#bias) run(KERNEL.biasBackward, gradient, gradients[1], rows, outputs, add);
    if (!inputGradient) return 0;
    run(
      KERNEL.sgemm,
      0,
      0,
      rows,
      inputs,
      outputs,
      1,
      gradient,
      outputs,
      parameters[0],
      inputs,
      0,
      this.#gradient.address,
      inputs,
    );
    return this.#gradient.address;
  }
}
