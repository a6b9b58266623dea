/** Addresses and ports of this test's own in the network that all share: another test, or another clone, may run at the same time. */

import { createServer } from 'node:net';

const first = (process.pid % 2 ** 14) * 8;

/** Eight addresses for each, of the 2^17 that RFC 2544 sets aside for tests. */
export const OWN_NETWORK_BITS = 29;

/** @param host 1 to 6 */
export function ownAddress(host: number): string {
  return `198.${18 + (first >> 16)}.${(first >> 8) & 255}.${(first & 255) + host}`;
}

/** A port for a daemon that takes a number only. It is below those that the kernel gives to connections, so that none takes it meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
