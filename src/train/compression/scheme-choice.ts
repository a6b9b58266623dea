/** Which scheme carries which compression. */
import { codecOf } from './codec.js';
import type { Compression } from './compression.js';
import { GatherScheme } from './gather-scheme.js';
import { PowerSgdScheme } from './power-sgd-scheme.js';
import { RandomKScheme } from './random-k-scheme.js';
import type { Scheme, SchemeContext } from './scheme.js';
import { ThresholdScheme } from './threshold-scheme.js';
import { TwoWayScheme } from './two-way-scheme.js';

/** Codecs that say something about every number: a sum of their encodings is worth encoding again. */
const DENSE: ReadonlySet<Compression['kind']> = new Set(['fp16', 'bf16', 'int8', 'one-bit']);

/** How a stretch of the gradient travels. All ranks make it with the same compression. */
export function schemeOf(compression: Compression, context: SchemeContext): Scheme {
  if (compression.kind === 'random-k') return new RandomKScheme(context, compression.ratio);
  if (compression.kind === 'power-sgd') return new PowerSgdScheme(context, compression.rank);
  const codec = codecOf(compression);
  if (codec === undefined) throw new RangeError(`no codec for ${compression.kind}`);
  if (compression.kind === 'threshold') return new ThresholdScheme(context, codec);
  // Among two ranks both ways carry the same bytes, and gathering encodes once.
  const many = context.communicator.size > 2;
  return DENSE.has(compression.kind) && many ? new TwoWayScheme(context, codec) : new GatherScheme(context, codec);
}
