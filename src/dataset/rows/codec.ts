/**
 * Rows as bytes. A block is a list of frames, one per batch:
 *
 *   u32 bytes of the frame | u32 kind and rows (kind << 28 | rows) | body                                       padded to 8 bytes
 *
 *   kind 0   any values: the structured clone of the array (v8.serialize)
 *   kind 1   [string, number] pairs:   u32 bytes of text | u32 0 | f64 numbers | u32 lengths in UTF-16 units | the text as UTF-8 or Latin-1 (kind 3)
 *   kind 2   strings:                  u32 bytes of text | u32 0 | u32 lengths | the text                                                   (kind 4: Latin-1)
 *   kind 5   [number, number] pairs    f64 keys | f64 values                   kind 6   numbers   f64
 *
 * The special kinds exist because structured clone costs a microsecond a row, and counting things is what people do.
 */

import { deserialize, serialize } from 'node:v8';

const HEAD = 8;
const MOST_ROWS = (1 << 28) - 1;

function frame(kind: number, rows: number, bodyBytes: number): Buffer {
  const length = HEAD + ((bodyBytes + 7) & ~7);
  const out = Buffer.allocUnsafeSlow(length);
  out.writeUInt32LE(length, 0);
  out.writeUInt32LE(((kind << 28) | rows) >>> 0, 4);
  out.fill(0, HEAD + bodyBytes);
  return out;
}

type Shape = 'pairs-text' | 'pairs-number' | 'text' | 'number' | 'any';

function shapeOf(rows: readonly unknown[]): Shape {
  const first = rows[0];
  if (typeof first === 'string') return rows.every((row) => typeof row === 'string') ? 'text' : 'any';
  if (typeof first === 'number') return rows.every((row) => typeof row === 'number') ? 'number' : 'any';
  if (!Array.isArray(first) || first.length !== 2 || typeof first[1] !== 'number') return 'any';
  const key = typeof first[0];
  if (key !== 'string' && key !== 'number') return 'any';
  for (const row of rows) {
    if (!Array.isArray(row) || row.length !== 2 || typeof row[0] !== key || typeof row[1] !== 'number') return 'any';
  }
  return key === 'string' ? 'pairs-text' : 'pairs-number';
}

const isLatin = /^[\0-\xff]*$/;

/** A lone surrogate does not survive UTF-8. */
function survives(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

function encodeText(rows: readonly unknown[], pairs: boolean): Buffer | undefined {
  const count = rows.length;
  const texts = pairs ? (rows as readonly [string, number][]).map(([key]) => key) : (rows as readonly string[]);
  const joined = texts.join('');
  const latin = isLatin.test(joined);
  if (!latin && !survives(joined)) return undefined;
  const textBytes = latin ? joined.length : Buffer.byteLength(joined);
  const numbers = pairs ? count * 8 : 0;
  const out = frame((pairs ? 1 : 2) + (latin ? 2 : 0), count, 8 + numbers + count * 4 + textBytes);
  out.writeUInt32LE(textBytes, HEAD);
  out.writeUInt32LE(0, HEAD + 4);
  let at = HEAD + 8;
  if (pairs) {
    const values = new Float64Array(out.buffer, out.byteOffset + at, count);
    for (let i = 0; i < count; i++) values[i] = (rows[i] as [string, number])[1];
    at += numbers;
  }
  const lengths = new Uint32Array(out.buffer, out.byteOffset + at, count);
  for (let i = 0; i < count; i++) lengths[i] = texts[i].length;
  at += count * 4;
  out.write(joined, at, latin ? 'latin1' : 'utf8');
  return out;
}

/** A frame of these rows. */
export function encodeRows(rows: readonly unknown[]): Uint8Array {
  if (rows.length > MOST_ROWS) throw new RangeError(`a batch has at most ${MOST_ROWS} rows`);
  const shape = rows.length === 0 ? 'any' : shapeOf(rows);
  if (shape === 'pairs-text' || shape === 'text') {
    const text = encodeText(rows, shape === 'pairs-text');
    if (text) return text;
  } else if (shape === 'number') {
    const out = frame(6, rows.length, rows.length * 8);
    new Float64Array(out.buffer, out.byteOffset + HEAD, rows.length).set(rows as number[]);
    return out;
  } else if (shape === 'pairs-number') {
    const out = frame(5, rows.length, rows.length * 16);
    const numbers = new Float64Array(out.buffer, out.byteOffset + HEAD, rows.length * 2);
    for (let i = 0; i < rows.length; i++) {
      const [key, value] = rows[i] as [number, number];
      numbers[i] = key;
      numbers[rows.length + i] = value;
    }
    return out;
  }
  const body = serialize(rows);
  const out = frame(0, rows.length, body.length);
  body.copy(out, HEAD);
  return out;
}

function decodeTexts(bytes: Buffer, at: number, rows: number, textBytes: number, latin: boolean): string[] {
  const lengths = new Uint32Array(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + at + rows * 4));
  const from = at + rows * 4;
  const text = bytes.toString(latin ? 'latin1' : 'utf8', from, from + textBytes);
  const out = new Array<string>(rows);
  let start = 0;
  for (let i = 0; i < rows; i++) {
    const end = start + lengths[i];
    out[i] = text.slice(start, end);
    start = end;
  }
  return out;
}

function decodeFrame(bytes: Buffer, at: number, length: number): unknown[] {
  const word = bytes.readUInt32LE(at + 4);
  const kind = word >>> 28;
  const rows = word & MOST_ROWS;
  const body = at + HEAD;
  // A copy, because typed arrays in the result are views of what was read.
  if (kind === 0) return deserialize(new Uint8Array(bytes.subarray(body, at + length))) as unknown[];
  const floats = (from: number, count: number) =>
    new Float64Array(bytes.buffer.slice(bytes.byteOffset + from, bytes.byteOffset + from + count * 8));
  if (kind === 6) return Array.from(floats(body, rows));
  if (kind === 5) {
    const numbers = floats(body, rows * 2);
    return Array.from({ length: rows }, (_, i) => [numbers[i], numbers[rows + i]]);
  }
  const textBytes = bytes.readUInt32LE(body);
  const latin = kind > 2;
  if (kind === 2 || kind === 4) return decodeTexts(bytes, body + 8, rows, textBytes, latin);
  const values = floats(body + 8, rows);
  const texts = decodeTexts(bytes, body + 8 + rows * 8, rows, textBytes, latin);
  const out = new Array<unknown>(rows);
  for (let i = 0; i < rows; i++) out[i] = [texts[i], values[i]];
  return out;
}

/** The batches of a block. Nothing of the result refers to the bytes. @throws RangeError where the bytes are no frames. */
export function* decodeRows(block: Uint8Array): Generator<unknown[]> {
  const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const length = at + HEAD <= bytes.length ? bytes.readUInt32LE(at) : 0;
    if (length < HEAD || at + length > bytes.length) throw new RangeError(`no frame of rows at byte ${at}`);
    yield decodeFrame(bytes, at, length);
    at += length;
  }
}
