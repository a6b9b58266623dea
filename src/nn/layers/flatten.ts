/** Any shape becomes one dimension. Nothing moves: samples are row-major already. */
import { type LayerSpec, sizeOf } from '../layer.js';

export function flatten(): LayerSpec {
  return {
    kind: 'flatten',
    outputShape: (input) => [sizeOf(input)],
    parameters: () => [],
    passesThrough: true,
    create: () => ({ forward: (input) => input, backward: (gradient) => gradient }),
  };
}
