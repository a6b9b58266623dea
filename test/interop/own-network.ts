/** A network of this test's own in the namespace that all share: another test, or another clone, may run at the same time. */

const first = (process.pid % 2 ** 14) * 8;

/** Eight addresses for each, of the 2^17 that RFC 2544 sets aside for tests. */
export const OWN_NETWORK_BITS = 29;

/** @param host 1 to 6 */
export function ownAddress(host: number): string {
  return `198.${18 + (first >> 16)}.${(first >> 8) & 255}.${(first & 255) + host}`;
}
