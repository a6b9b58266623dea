/**
 * IP addressing over connection management, as librdmacm does it: a service id stands for a port, and the REQ's private data starts with
 * a header that names both IP addresses.
 *
 *     service id   0x0000 0000 0106 pppp              0x0106: the TCP port space, pppp: the port
 *     header       0  version 0 | 1  IP version in the upper four bits | 2  source port | 4  source address | 20  destination
 *                  (an IPv4 address takes the last four of its sixteen bytes)                              36 bytes
 */

const TCP_PORT_SPACE = 0x0106n;

const IP_HEADER_BYTES = 36;

/** What the header says, and the private data after it. Addresses have 4 or 16 bytes. */
export interface IpHeader {
  sourcePort: number;
  source: Uint8Array;
  destination: Uint8Array;
  privateData: Uint8Array;
}

/** The service id of a port in the TCP port space. */
export function serviceIdOf(port: number): bigint {
  return (TCP_PORT_SPACE << 16n) | BigInt(port);
}

/** The port of a service id, or -1 when it is not one of the TCP port space. */
export function portOf(serviceId: bigint): number {
  return serviceId >> 16n === TCP_PORT_SPACE ? Number(serviceId & 0xffffn) : -1;
}

/** The private data of a REQ. Throws RangeError when the user's part is longer than 56 bytes. */
export function encodeIpHeader(h: IpHeader): Uint8Array {
  if (h.privateData.length > 92 - IP_HEADER_BYTES) {
    throw new RangeError(`${h.privateData.length} bytes of private data: a connect request over IP takes at most 56`);
  }
  const b = new Uint8Array(IP_HEADER_BYTES + h.privateData.length);
  b[1] = h.source.length === 4 ? 0x40 : 0x60;
  b[2] = h.sourcePort >> 8;
  b[3] = h.sourcePort;
  b.set(h.source, 20 - h.source.length);
  b.set(h.destination, 36 - h.destination.length);
  b.set(h.privateData, IP_HEADER_BYTES);
  return b;
}

/** Reads the private data of a REQ; undefined when it has no such header. */
export function decodeIpHeader(b: Uint8Array): IpHeader | undefined {
  if (b.length < IP_HEADER_BYTES || b[0] !== 0) return undefined;
  const bytes = b[1] >> 4 === 4 ? 4 : b[1] >> 4 === 6 ? 16 : 0;
  if (bytes === 0) return undefined;
  return {
    sourcePort: (b[2] << 8) | b[3],
    source: b.slice(20 - bytes, 20),
    destination: b.slice(36 - bytes, 36),
    privateData: b.slice(IP_HEADER_BYTES),
  };
}
