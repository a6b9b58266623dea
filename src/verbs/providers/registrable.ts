/**
 * What may be registered: memory that stays where it is while a device uses it.
 */

import { readFileSync } from 'node:fs';
import { VerbsError } from '../errors.js';

const WASM_PAGE = 65536;
const GUARD_BYTES = 2 ** 30;

/** The bytes of an ArrayBuffer or a view of one. Throws VERBS_INVALID for anything else, and for a detached or empty one. */
export function bytesOf(memory: ArrayBuffer | ArrayBufferView): Uint8Array {
  const isView = ArrayBuffer.isView(memory);
  const buffer = isView ? memory.buffer : memory;
  if (!(buffer instanceof ArrayBuffer)) {
    throw new VerbsError(
      'VERBS_INVALID',
      'register takes an ArrayBuffer or a view of one; a SharedArrayBuffer cannot be registered',
    );
  }
  const length = memory.byteLength;
  if (length === 0) throw new VerbsError('VERBS_INVALID', 'the memory is empty, or its buffer was detached');
  return new Uint8Array(buffer, isView ? memory.byteOffset : 0, length);
}

/** Throws VERBS_INVALID for memory that can move or shrink under the device: resizable buffers and WebAssembly memories. */
export function refuseMovable(buffer: ArrayBuffer, address: number): void {
  if ((buffer as { resizable?: boolean }).resizable) {
    throw new VerbsError('VERBS_INVALID', 'a resizable ArrayBuffer cannot be registered: its memory may shrink under the device');
  }
  if (buffer.byteLength % WASM_PAGE === 0 && isGuarded(address + buffer.byteLength)) {
    throw new VerbsError(
      'VERBS_INVALID',
      'the memory of a WebAssembly instance cannot be registered: it moves when it grows; copy through device.alloc',
    );
  }
}

/** V8 puts gigabytes of inaccessible addresses behind a WebAssembly memory, and behind nothing else. */
function isGuarded(end: number): boolean {
  for (const line of readFileSync('/proc/self/maps', 'utf8').split('\n')) {
    const [range, rights] = line.split(' ');
    const [from, to] = range.split('-').map((hex) => Number.parseInt(hex, 16));
    if (from <= end && end < to) return rights === '---p' && to - end >= GUARD_BYTES;
  }
  return false;
}
