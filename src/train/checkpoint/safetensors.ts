/**
 * The safetensors format, written and read.
 *
 *   | header bytes N: u64, little endian | header: N bytes of JSON | data: tensors one after the other, without gaps |
 *
 * The header maps each name to { dtype, shape, data_offsets: [begin, end] }, counted from the start of the data, and `__metadata__` to texts. It
 * begins with '{' and is padded with spaces, here to a multiple of 8, so that the data is aligned.
 */

/** dtype of the format and what holds it here. */
const KINDS = {
  F32: { bytes: 4, view: Float32Array },
  F64: { bytes: 8, view: Float64Array },
  I32: { bytes: 4, view: Int32Array },
  U32: { bytes: 4, view: Uint32Array },
  U8: { bytes: 1, view: Uint8Array },
} as const;
type Kind = keyof typeof KINDS;
type TensorData = Float32Array | Float64Array | Int32Array | Uint32Array | Uint8Array;

/** A named array and its shape. */
export interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** What a file holds. */
export interface SafetensorsFile {
  readonly tensors: ReadonlyMap<string, Tensor>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The format limits the header to this. */
const MOST_HEADER_BYTES = 100_000_000;

/** A file that is no safetensors file, and why. */
export class SafetensorsError extends Error {
  readonly code = 'SAFETENSORS_INVALID';

  constructor(message: string) {
    super(message);
    this.name = 'SafetensorsError';
  }
}

function kindOf(data: TensorData): Kind {
  for (const [kind, { view }] of Object.entries(KINDS)) if (data instanceof view) return kind as Kind;
  throw new RangeError('safetensors hold Float32Array, Float64Array, Int32Array, Uint32Array and Uint8Array');
}

/** Everything before the data. @throws RangeError when a shape and its data do not fit, or a name comes twice. */
export function safetensorsHeader(tensors: readonly Tensor[], metadata: Readonly<Record<string, string>> = {}): Uint8Array {
  const header: Record<string, unknown> = {};
  if (Object.keys(metadata).length > 0) header['__metadata__'] = metadata;
  let at = 0;
  for (const { name, shape, data } of tensors) {
    if (name === '__metadata__' || Object.hasOwn(header, name)) throw new RangeError(`there are two tensors '${name}'`);
    const elements = shape.reduce((product, size) => product * size, 1);
    if (elements !== data.length)
      throw new RangeError(`tensor '${name}' of shape [${shape.join(', ')}] has ${data.length} elements`);
    header[name] = { dtype: kindOf(data), shape, data_offsets: [at, at + data.byteLength] };
    at += data.byteLength;
  }
  const text = JSON.stringify(header);
  const json = new TextEncoder().encode(text);
  const length = 8 * Math.ceil(json.length / 8);
  const bytes = new Uint8Array(8 + length).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(json, 8);
  return bytes;
}

/** A whole file. Tensors of wider elements should come first, so that all lie on their boundaries. */
export function encodeSafetensors(tensors: readonly Tensor[], metadata: Readonly<Record<string, string>> = {}): Uint8Array {
  const header = safetensorsHeader(tensors, metadata);
  const size = tensors.reduce((sum, { data }) => sum + data.byteLength, header.length);
  const file = new Uint8Array(size);
  file.set(header);
  let at = header.length;
  for (const { data } of tensors) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file;
}

/** Reads a whole file. Tensors are copies. @throws SafetensorsError for everything that the format forbids. */
export function decodeSafetensors(file: Uint8Array): SafetensorsFile {
  const fail = (message: string): never => {
    throw new SafetensorsError(message);
  };
  if (file.length < 8) fail(`a safetensors file has at least 8 bytes, this one ${file.length}`);
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  if (length > MOST_HEADER_BYTES) fail(`a header of ${length} bytes is longer than ${MOST_HEADER_BYTES}`);
  if (8 + length > file.length) fail(`the header says ${length} bytes, the file has ${file.length - 8} behind it`);
  if (file[8] !== 0x7b) fail("the header does not begin with '{'");
  let header: Record<string, unknown> = {};
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(file.subarray(8, 8 + length))) as typeof header;
  } catch (error) {
    fail(`the header is no JSON: ${(error as Error).message}`);
  }
  const { __metadata__: metadata = {}, ...entries } = header;
  if (typeof metadata !== 'object' || metadata === null || !Object.values(metadata).every((v) => typeof v === 'string')) {
    fail('__metadata__ maps texts to texts');
  }
  const data = file.subarray(8 + length);
  const tensors = new Map<string, Tensor>();
  const placed: [begin: number, end: number, name: string][] = [];
  for (const [name, entry] of Object.entries(entries)) {
    const { dtype, shape, data_offsets: offsets } = entry as { dtype: Kind; shape: number[]; data_offsets: [number, number] };
    if (!Object.hasOwn(KINDS, dtype))
      fail(`tensor '${name}' has dtype ${String(dtype)}; known: ${Object.keys(KINDS).join(', ')}`);
    const whole = (values: unknown): boolean =>
      Array.isArray(values) && values.every((v) => Number.isSafeInteger(v) && (v as number) >= 0);
    if (!whole(shape) || !whole(offsets) || offsets.length !== 2) fail(`tensor '${name}' lacks a shape or data_offsets`);
    const [begin, end] = offsets;
    const { bytes, view } = KINDS[dtype];
    const elements = shape.reduce((product, size) => product * size, 1);
    if (end - begin !== elements * bytes) fail(`tensor '${name}': ${end - begin} bytes do not hold ${elements} x ${dtype}`);
    if (end > data.length) fail(`tensor '${name}' ends at byte ${end}, the data at ${data.length}`);
    placed.push([begin, end, name]);
    const copy = data.slice(begin, end);
    tensors.set(name, { name, shape, data: new view(copy.buffer, copy.byteOffset, elements) });
  }
  placed.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let at = 0;
  for (const [begin, end, name] of placed) {
    if (begin !== at) fail(`tensor '${name}' begins at byte ${begin}, the one before ends at ${at}: no gaps and no overlaps`);
    at = end;
  }
  if (at !== data.length) fail(`${data.length - at} bytes follow the last tensor`);
  return { tensors, metadata: metadata as Record<string, string> };
}
