/** Types of columns: what a typed array can hold. The numbers are those of native/dataset.h. */

import { DatasetError } from '../errors.js';

export const COLUMN_TYPES = { i32: 0, u32: 1, f32: 2, f64: 3, i64: 4, u8: 5 } as const;

/** i64 is a BigInt64Array; the others are the typed arrays of that width. */
export type Type = keyof typeof COLUMN_TYPES;
export type Schema = Readonly<Record<string, Type>>;

export interface ArrayOf {
  i32: Int32Array;
  u32: Uint32Array;
  f32: Float32Array;
  f64: Float64Array;
  i64: BigInt64Array;
  u8: Uint8Array;
}

/** What holds the values of a column. */
export type ColumnArray = ArrayOf[Type];
/** The arrays of a schema's columns, by name. */
export type ColumnsOf<S extends Schema> = { readonly [N in keyof S]: ArrayOf[S[N]] };
/** A row of columns as an object. */
export type RowOf<S extends Schema> = { readonly [N in keyof S]: S[N] extends 'i64' ? bigint : number };

const WIDTHS: Readonly<Record<Type, number>> = { i32: 4, u32: 4, f32: 4, f64: 8, i64: 8, u8: 1 };

export function widthOf(type: Type): number {
  return WIDTHS[type];
}

/** A typed array over memory, or a new one. */
export function arrayOf(type: Type, length: number): ColumnArray;
export function arrayOf(type: Type, buffer: ArrayBufferLike, byteOffset: number, length: number): ColumnArray;
export function arrayOf(type: Type, a: number | ArrayBufferLike, byteOffset = 0, length = 0): ColumnArray {
  const buffer = typeof a === 'number' ? new ArrayBuffer(a * WIDTHS[type]) : a;
  const count = typeof a === 'number' ? a : length;
  switch (type) {
    case 'i32':
      return new Int32Array(buffer, byteOffset, count);
    case 'u32':
      return new Uint32Array(buffer, byteOffset, count);
    case 'f32':
      return new Float32Array(buffer, byteOffset, count);
    case 'i64':
      return new BigInt64Array(buffer, byteOffset, count);
    case 'u8':
      return new Uint8Array(buffer, byteOffset, count);
    default:
      return new Float64Array(buffer, byteOffset, count);
  }
}

export function typeOf(array: ArrayBufferView): Type {
  if (array instanceof Int32Array) return 'i32';
  if (array instanceof Uint32Array) return 'u32';
  if (array instanceof Float32Array) return 'f32';
  if (array instanceof Float64Array) return 'f64';
  if (array instanceof BigInt64Array) return 'i64';
  if (array instanceof Uint8Array) return 'u8';
  throw new DatasetError(
    'DATASET_SCHEMA',
    `a column is an Int32, Uint32, Float32, Float64, BigInt64 or Uint8 array: got ${array.constructor.name}`,
  );
}

/** The type of a column. @throws DATASET_SCHEMA where there is none of that name. */
export function columnType(schema: Schema, name: string): Type {
  const type = schema[name];
  if (!type) throw new DatasetError('DATASET_SCHEMA', `there is no column ${name}: there are ${Object.keys(schema).join(', ')}`);
  return type;
}
