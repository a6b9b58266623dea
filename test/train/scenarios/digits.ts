/** Small data and small models for tests of training: noise with a bright bar whose row is the label. */

import {
  batchNorm,
  dropout,
  flatten,
  ImageDataset,
  type LayerSpec,
  linear,
  Model,
  type ModelOptions,
  parseIdx,
  Random,
  relu,
} from '../../../src/nn/index.js';

export function bars(count: number, seed: number): ImageDataset {
  const random = new Random(seed);
  const size = 8;
  const images = Uint8Array.from({ length: count * size * size }, () => random.integer(120));
  const labels = Uint8Array.from({ length: count }, () => random.integer(size));
  for (const [i, label] of labels.entries()) images.fill(200, (i * size + label) * size, (i * size + label + 1) * size);
  const header = (...sizes: number[]) => [0, 0, 8, sizes.length, ...sizes.flatMap((n) => [0, 0, n >> 8, n & 255])];
  return new ImageDataset(
    parseIdx(Uint8Array.from([...header(count, size, size), ...images])),
    parseIdx(Uint8Array.from([...header(count), ...labels])),
    { mean: 0.3, deviation: 0.25 },
  );
}

/** 'plain': two dense layers. 'rich': with dropout and batch norm. 'heavy': most of the work is done when the last layer's gradient is long final. */
export function smallModel(kind: 'plain' | 'rich' | 'heavy', maxBatch: number, memory?: ModelOptions['memory']): Model {
  const rich: LayerSpec[] = [flatten(), linear(24), batchNorm(), relu(), dropout(0.2), linear(8)];
  const heavy: LayerSpec[] = [flatten(), linear(2048), relu(), linear(2048), relu(), linear(8)];
  const plain: LayerSpec[] = [flatten(), linear(24), relu(), linear(8)];
  return new Model({
    input: [1, 8, 8],
    layers: { plain, rich, heavy }[kind],
    maxBatch,
    seed: 7,
    ...(memory === undefined ? {} : { memory }),
  });
}
