/** Lines of text files: a dataset of strings that can also count words natively. */

import { Dataset } from './dataset.js';
import type { Engine } from './engine.js';
import { countWordsNode } from './rows/words.js';
import { type TextOptions, textNode } from './sources/text.js';

export class TextDataset extends Dataset<string> {
  readonly #paths: string | readonly string[];
  readonly #options: TextOptions;

  /** @internal Made by a session. */
  constructor(engine: Engine, paths: string | readonly string[], options: TextOptions) {
    super(engine, textNode('textFile', paths, options));
    this.#paths = paths;
    this.#options = options;
  }

  /** How often each word occurs: what stands between white space. The same as flatMap, map and reduceByKey would give, but counted natively, on bytes. */
  countWords(partitions?: number): Dataset<[string, number]> {
    return new Dataset(this.engine, countWordsNode(this.#paths, this.#options, partitions));
  }
}
