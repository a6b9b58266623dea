/**
 * A table of vectors: [length] of ids becomes [length, columns]. It stands first in a model, and the model's input is an Int32Array.
 * Backward adds the gradient of each position to the row of its id.
 */
import { type Initializer, normal } from '../initializers.js';
import { Block, KERNEL, result, run } from '../kernels.js';
import { checkInteger, type Layer, type LayerSpec, type Pass, type Site, sizeOf } from '../layer.js';

export interface EmbeddingOptions {
  /** Rows of the table; ids are 0 .. vocabulary - 1. */
  vocabulary: number;
  /** Length of a vector. */
  columns: number;
  /** Start of the table. Default: normal(1). */
  initial?: Initializer;
}

/** Forward throws a RangeError at an id outside the table. */
export function embedding(options: EmbeddingOptions): LayerSpec {
  const { vocabulary, columns, initial = normal(1) } = options;
  checkInteger('embedding vocabulary', vocabulary, 1);
  checkInteger('embedding columns', columns, 1);
  return {
    kind: 'embedding',
    outputShape: (input) => [...input, columns],
    parameters: () => [{ name: 'weight', shape: [vocabulary, columns], initial, decay: true }],
    create(site) {
      if (site.index !== 0) throw new RangeError(`an embedding takes ids, so it must be the first layer, not ${site.name}`);
      return new Embedding(site, vocabulary, columns);
    },
  };
}

class Embedding implements Layer {
  readonly #site: Site;
  readonly #vocabulary: number;
  readonly #columns: number;
  readonly #length: number;
  readonly #output: Block;
  #ids = 0;

  constructor(site: Site, vocabulary: number, columns: number) {
    this.#site = site;
    this.#vocabulary = vocabulary;
    this.#columns = columns;
    this.#length = sizeOf(site.input);
    this.#output = Block.zeros(site.maxBatch * sizeOf(site.output));
  }

  forward(input: number, pass: Pass): number {
    const to = this.#output.address;
    const count = pass.batch * this.#length;
    this.#ids = input;
    run(KERNEL.embeddingForward, input, this.#site.parameters[0], to, count, this.#columns, this.#vocabulary);
    const bad = result(0);
    if (bad > 0) {
      const sample = Math.floor((bad - 1) / this.#length);
      throw new RangeError(
        `${this.#site.name}: sample ${sample}, position ${(bad - 1) % this.#length}: the id is outside 0 .. ${this.#vocabulary - 1}`,
      );
    }
    return to;
  }

  backward(gradient: number, pass: Pass): number {
    const to = this.#site.gradients[0];
    const add = pass.accumulate ? 1 : 0;
    run(KERNEL.embeddingBackward, this.#ids, gradient, to, pass.batch * this.#length, this.#columns, this.#vocabulary, add);
    return 0;
  }
}
