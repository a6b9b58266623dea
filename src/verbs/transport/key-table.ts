/**
 * Regions by their keys, as peers and queue pairs name them.
 *
 *     key:  [ index 24 bits | generation 8 bits ]          regions[index] = { key, domain, access, address, length, starts, ... }
 *
 * A region has one part, or several end to end (indexed and strided regions): part i holds the bytes from `starts[i]` on.
 */

export interface KeyedRegion {
  readonly key: number;
  /** Number of the protection domain. */
  readonly domain: number;
  /** Bits of access.ts. */
  readonly access: number;
  /** Address that requests use. */
  readonly address: number;
  readonly length: number;
  readonly starts: readonly number[];
}

export class KeyTable<R extends KeyedRegion> {
  protected readonly regions: (R | undefined)[] = [undefined];

  /** Revokes a key. False when it was not valid. */
  revoke(key: number): boolean {
    if (this.regions[key >>> 8]?.key !== key) return false;
    this.regions[key >>> 8] = undefined;
    return true;
  }

  belongs(key: number, domain: number): boolean {
    const r = this.regions[key >>> 8];
    return r !== undefined && r.key === key && r.domain === domain;
  }

  /** The region of a key when it belongs to the domain, grants `access` and holds the whole range. */
  find(key: number, domain: number, address: number, length: number, access: number): R | undefined {
    const r = this.regions[key >>> 8];
    if (r === undefined || r.key !== key || r.domain !== domain || (r.access & access) !== access) return undefined;
    return address >= r.address && address + length <= r.address + r.length ? r : undefined;
  }
}

/** The part that holds byte `offset` of a region. */
export function partOf({ starts }: KeyedRegion, offset: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}
