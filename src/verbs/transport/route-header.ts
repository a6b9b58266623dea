/** The global route header before the payload of a received datagram, where no network layer has left one: an IPv6 header with both GIDs. */

export const GRH_BYTES = 40;

/** @param bytes that follow it @param next what they are: 17 for UDP, 27 for an InfiniBand packet @param source 16 bytes @param destination 16 bytes */
export function writeRouteHeader(
  header: Uint8Array,
  bytes: number,
  next: number,
  source: Uint8Array,
  destination: Uint8Array,
): void {
  header[0] = 0x60;
  header[4] = bytes >> 8;
  header[5] = bytes;
  header[6] = next;
  header[7] = 64;
  for (let i = 0; i < 16; i++) {
    header[8 + i] = source[i];
    header[24 + i] = destination[i];
  }
}
