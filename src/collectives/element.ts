/** Element types and reductions: what vectors can hold, how they may be combined, and the numbers under which C knows both. */

import { CollectiveError } from './errors.js';

/** Vectors the collectives work on. 16-bit floats live in a Uint16Array and need their type said. */
export type Vector = Float32Array | Float64Array | Int8Array | Int32Array | BigInt64Array | Uint8Array | Uint16Array;

/** Types of elements; i64 is a BigInt64Array, f16 and bf16 lie in a Uint16Array. */
export type ElementType = 'f32' | 'f64' | 'f16' | 'bf16' | 'i8' | 'i32' | 'i64' | 'u8';

/**
 * sum and prod wrap for integers; avg is the sum divided by the number of ranks, toward zero for integers; min and max give NaN when either side is NaN;
 * band and bor are for integers.
 */
export type Reduction = 'sum' | 'avg' | 'prod' | 'min' | 'max' | 'band' | 'bor';

/** A reduction of one's own: own[i] = own[i] op other[i] for all i. Must be associative and commutative, and runs on the caller's thread. */
export type UserReduction = (own: Vector, other: Vector) => void;

/** As in native/reduce.h. */
const TYPE_CODES: Readonly<Record<ElementType, number>> = { f32: 0, f64: 1, f16: 2, bf16: 3, i8: 4, i32: 5, i64: 6, u8: 7 };
const REDUCTION_CODES: Readonly<Record<Reduction, number>> = { sum: 0, avg: 0, prod: 1, min: 2, max: 3, band: 4, bor: 5 };
/** Data that is only moved travels under any type of its width. */
const MOVED: Readonly<Record<number, ElementType>> = { 1: 'u8', 2: 'f16', 4: 'i32', 8: 'i64' };
const FLOATS: ReadonlySet<ElementType> = new Set(['f32', 'f64', 'f16', 'bf16']);

export const TYPE_NAMES = Object.keys(TYPE_CODES) as ElementType[];
export const REDUCTION_NAMES: readonly Reduction[] = ['sum', 'prod', 'min', 'max', 'band', 'bor'];

/** The type of a vector that is reduced. @throws COLL_INVALID for a Uint16Array without a type and for a type that does not fit. */
export function elementType(data: Vector, said?: ElementType): ElementType {
  const natural = naturalType(data);
  if (said === undefined) {
    if (natural !== undefined) return natural;
    throw new CollectiveError('COLL_INVALID', "a Uint16Array may hold f16 or bf16: say which, { type: 'f16' }");
  }
  if (natural === said || (natural === undefined && (said === 'f16' || said === 'bf16'))) return said;
  throw new CollectiveError('COLL_INVALID', `a ${data.constructor.name} does not hold ${said}`);
}

function naturalType(data: Vector): ElementType | undefined {
  if (data instanceof Float32Array) return 'f32';
  if (data instanceof Float64Array) return 'f64';
  if (data instanceof Int8Array) return 'i8';
  if (data instanceof Int32Array) return 'i32';
  if (data instanceof BigInt64Array) return 'i64';
  if (data instanceof Uint8Array) return 'u8';
  if (data instanceof Uint16Array) return undefined;
  throw new CollectiveError('COLL_INVALID', `collectives work on typed arrays, not on ${String(data)}`);
}

export function typeCode(type: ElementType): number {
  return TYPE_CODES[type];
}

/** @throws COLL_INVALID for an unknown width. */
export function movedType(data: Vector): ElementType {
  const type = MOVED[data.BYTES_PER_ELEMENT];
  if (type === undefined)
    throw new CollectiveError('COLL_INVALID', `elements of ${data.BYTES_PER_ELEMENT} bytes cannot be moved`);
  return type;
}

/** @throws COLL_INVALID for a name that is none, and for bits of floats. */
export function reductionCode(reduction: Reduction, type: ElementType): number {
  const code = REDUCTION_CODES[reduction];
  if (code === undefined) {
    const known = Object.keys(REDUCTION_CODES).join(', ');
    throw new CollectiveError('COLL_INVALID', `there is no reduction '${String(reduction)}': there are ${known}`);
  }
  if (code >= REDUCTION_CODES.band && FLOATS.has(type)) {
    throw new CollectiveError('COLL_INVALID', `${reduction} is for integers, not for ${type}`);
  }
  return code;
}
