/**
 * How parameters start. Each is a function that fills a tensor from a seeded generator.
 *
 * A weight is [out, in, ...window]; its fan-in is in x window, its fan-out is out x window. He keeps the variance through ReLU, Xavier
 * through layers that are nearly linear around zero.
 */
import type { Shape } from './layer.js';
import type { Random } from './random.js';

/** Fills the first values of a parameter. */
export type Initializer = (values: Float32Array, shape: Shape, random: Random) => void;

function fans(shape: Shape): { fanIn: number; fanOut: number } {
  const window = shape.slice(2).reduce((product, size) => product * size, 1);
  return { fanIn: (shape[1] ?? shape[0]) * window, fanOut: shape[0] * window };
}

function fillNormal(values: Float32Array, deviation: number, random: Random): void {
  for (let i = 0; i < values.length; i++) values[i] = deviation * random.normal();
}

function fillUniform(values: Float32Array, bound: number, random: Random): void {
  for (let i = 0; i < values.length; i++) values[i] = bound * (2 * random.uniform() - 1);
}

/** Normal with variance 2 / fan-in. */
export const heNormal: Initializer = (values, shape, random) => fillNormal(values, Math.sqrt(2 / fans(shape).fanIn), random);

/** Uniform with variance 2 / fan-in. */
export const heUniform: Initializer = (values, shape, random) => fillUniform(values, Math.sqrt(6 / fans(shape).fanIn), random);

/** Normal with variance 2 / (fan-in + fan-out). */
export const xavierNormal: Initializer = (values, shape, random) => {
  const { fanIn, fanOut } = fans(shape);
  fillNormal(values, Math.sqrt(2 / (fanIn + fanOut)), random);
};

/** Uniform with variance 2 / (fan-in + fan-out). */
export const xavierUniform: Initializer = (values, shape, random) => {
  const { fanIn, fanOut } = fans(shape);
  fillUniform(values, Math.sqrt(6 / (fanIn + fanOut)), random);
};

/** Every value the same. */
export function constant(value: number): Initializer {
  return (values) => {
    values.fill(value);
  };
}

/** Normal with this standard deviation. */
export function normal(deviation: number): Initializer {
  return (values, _shape, random) => fillNormal(values, deviation, random);
}
