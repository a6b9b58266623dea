/**
 * Keys: how they are compared and how they are spread. Strings, numbers, booleans, bigints, null and undefined are themselves; arrays, objects, dates and bytes
 * are equal when their contents are, whatever the order of an object's fields.
 */

const F64 = new Float64Array(1);
const U32 = new Uint32Array(F64.buffer);

function mix(h: number): number {
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

function hashText(text: string): number {
  let h = 0x811c9dc5 ^ text.length;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return mix(h);
}

/** 32 bits, with a sign, of a key that is a primitive, or of the identity of one that is not. The same in every process. */
export function hashIdentity(identity: unknown): number {
  switch (typeof identity) {
    case 'string':
      return hashText(identity);
    case 'number': {
      if (Number.isInteger(identity) && identity >= -0x80000000 && identity <= 0xffffffff) return mix(identity | 0);
      F64[0] = identity;
      return mix(U32[0] ^ Math.imul(U32[1], 0x9e3779b1));
    }
    case 'boolean':
      return identity ? 0x5bd1e995 : 0x1b873593;
    case 'bigint':
      return hashText(identity.toString());
    default:
      return identity === null ? 0x27d4eb2f : 0x165667b1;
  }
}

/** What a Map can use as a key in place of a value: the value itself, or its contents as text. */
export function identityOf(key: unknown): unknown {
  return typeof key === 'object' && key !== null ? `\u0001${canonical(key)}` : key;
}

function canonical(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'number') return Object.is(value, -0) ? '0' : String(value);
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value instanceof Date) return `D${value.getTime()}`;
  if (ArrayBuffer.isView(value)) {
    return `B${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}`;
  }
  const fields = Object.entries(value as Record<string, unknown>).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`).join(',')}}`;
}

/** The order of keys where none is given: numbers by value, text by code unit, everything else by its text; kinds one after the other. */
export function compareKeys(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number')
    return a < b ? -1 : a > b ? 1 : a === b ? 0 : Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0;
  if (typeof a === 'bigint' && typeof b === 'bigint') return a < b ? -1 : a > b ? 1 : 0;
  if (a instanceof Date && b instanceof Date) return a.getTime() - b.getTime();
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      const order = compareKeys(a[i], b[i]);
      if (order !== 0) return order;
    }
    return a.length - b.length;
  }
  const kinds = kindOf(a) - kindOf(b);
  if (kinds !== 0) return kinds;
  const [left, right] = [canonical(a), canonical(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

function kindOf(value: unknown): number {
  if (value === undefined) return 0;
  if (value === null) return 1;
  return ['boolean', 'number', 'bigint', 'string', 'object'].indexOf(typeof value) + 2;
}
