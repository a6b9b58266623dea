/**
 * IDX, the file format of MNIST: big-endian header, then the numbers.
 *
 *   byte 0, 1: zero    2: type (8 = unsigned byte)    3: dimensions    then a 32-bit size for each dimension    then the data
 */
export interface IdxArray {
  /** Sizes, first dimension first. */
  readonly shape: readonly number[];
  /** A view of the file's bytes. */
  readonly data: Uint8Array;
}

/** Reads an IDX file of unsigned bytes. Throws a RangeError that says what is wrong with it. */
export function parseIdx(bytes: Uint8Array): IdxArray {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 4 || view.getUint16(0) !== 0)
    throw new RangeError('this is no IDX file: it does not begin with two zero bytes');
  if (view.getUint8(2) !== 8) throw new RangeError(`IDX type ${view.getUint8(2)} is not read here: only 8, unsigned bytes`);
  const dimensions = view.getUint8(3);
  const start = 4 + 4 * dimensions;
  if (dimensions === 0 || bytes.length < start) throw new RangeError(`the IDX header of ${dimensions} dimensions is cut off`);
  const shape = Array.from({ length: dimensions }, (_, i) => view.getUint32(4 + 4 * i));
  const size = shape.reduce((product, n) => product * n, 1);
  if (bytes.length - start !== size) {
    throw new RangeError(`an IDX array of [${shape.join(', ')}] has ${size} bytes; the file has ${bytes.length - start}`);
  }
  return { shape, data: bytes.subarray(start) };
}
