/**
 * The ways to send fewer bytes than the gradient has, as plain data and as words of a command line.
 *
 * | kind | what travels | share of f32 |
 * |---|---|---|
 * | fp16, bf16 | 16 bits of every number | 1/2 |
 * | int8 | 8 bits of every number and one scale for each piece | 1/4 |
 * | one-bit | the sign of every number, and the two means | 1/32 |
 * | top-k | the greatest `ratio` of the numbers, with their places | 2 x ratio |
 * | random-k | a share `ratio` of the numbers, at places that all ranks draw alike | ratio |
 * | threshold | numbers of a magnitude of at least `limit`, with their places | what there is, at most 1/2 |
 * | power-sgd | two thin matrices of `rank` columns for each weight matrix | rank x (rows + columns) / (rows x columns) |
 *
 * All keep what they left out and add it to the next gradient (error feedback), so nothing is lost for good: it comes later.
 */

export type Compression =
  | { readonly kind: 'fp16' | 'bf16' | 'int8' | 'one-bit' }
  | { readonly kind: 'top-k' /** Share of the numbers that are sent, above 0, at most 1. */; readonly ratio: number }
  | { readonly kind: 'random-k'; readonly ratio: number }
  | { readonly kind: 'threshold' /** Magnitude from which on a number is sent, above 0. */; readonly limit: number }
  | { readonly kind: 'power-sgd' /** Columns, 1 to 64. */; readonly rank: number };

/** What each kind is with nothing said about it. */
export const COMPRESSIONS: readonly Compression[] = [
  { kind: 'fp16' },
  { kind: 'bf16' },
  { kind: 'int8' },
  { kind: 'one-bit' },
  { kind: 'top-k', ratio: 0.01 },
  { kind: 'random-k', ratio: 0.05 },
  { kind: 'threshold', limit: 0.001 },
  { kind: 'power-sgd', rank: 4 },
];

/** Reads such as `fp16`, `top-k`, `top-k:0.01`, `threshold:1e-3`, `power-sgd:2`. Throws a RangeError that names what there is. */
export function parseCompression(text: string): Compression {
  const [kind, value, ...rest] = text.split(':');
  const found = COMPRESSIONS.find((one) => one.kind === kind);
  if (found === undefined || rest.length > 0) {
    throw new RangeError(`unknown compression '${text}': use ${COMPRESSIONS.map(nameOf).join(', ')}`);
  }
  if (value === undefined) return found;
  const number = value.trim() === '' ? Number.NaN : Number(value);
  if ('ratio' in found) return checkCompression({ ...found, ratio: number });
  if ('limit' in found) return checkCompression({ ...found, limit: number });
  if ('rank' in found) return checkCompression({ ...found, rank: number });
  throw new RangeError(`${kind} takes no number: got '${text}'`);
}

/** The same as words: what `parseCompression` reads. */
export function nameOf(compression: Compression): string {
  if ('ratio' in compression) return `${compression.kind}:${compression.ratio}`;
  if ('limit' in compression) return `${compression.kind}:${compression.limit}`;
  if ('rank' in compression) return `${compression.kind}:${compression.rank}`;
  return compression.kind;
}

/** Throws a RangeError for a number out of range; returns it otherwise. */
export function checkCompression(compression: Compression): Compression {
  if ('ratio' in compression && !(compression.ratio > 0 && compression.ratio <= 1)) {
    throw new RangeError(`the ratio of ${compression.kind} must be above 0 and at most 1, not ${compression.ratio}`);
  }
  if ('limit' in compression && !(compression.limit > 0 && compression.limit < Number.POSITIVE_INFINITY)) {
    throw new RangeError(`the limit of threshold must be above 0, not ${compression.limit}`);
  }
  if ('rank' in compression && !(Number.isInteger(compression.rank) && compression.rank >= 1 && compression.rank <= 64)) {
    throw new RangeError(`the rank of power-sgd must be an integer of 1 to 64, not ${compression.rank}`);
  }
  return compression;
}
