/** IP addresses and GIDs, as bytes and in text. A GID has the form of an IPv6 address; that of an IPv4 address is ::ffff:a.b.c.d. */

import { isIPv4, isIPv6 } from 'node:net';

/** The bytes of a numeric IP address, 4 or 16; undefined when it is none. */
export function parseIp(text: string): Uint8Array | undefined {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number);
  const bare = text.split('%')[0];
  if (!isIPv6(bare)) return undefined;
  const dotted = /^(.*:)([\d.]+)$/.exec(bare);
  const tail = dotted && isIPv4(dotted[2]) ? (parseIp(dotted[2]) as Uint8Array) : undefined;
  const hex =
    dotted && tail ? `${dotted[1]}${((tail[0] << 8) | tail[1]).toString(16)}:${((tail[2] << 8) | tail[3]).toString(16)}` : bare;
  const [front, back] = hex
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':').map((word) => Number.parseInt(word, 16))));
  const words = back === undefined ? front : [...front, ...Array<number>(8 - front.length - back.length).fill(0), ...back];
  return Uint8Array.from(words.flatMap((word) => [word >> 8, word & 255]));
}

/** The text of 4 or 16 address bytes. */
export function ipText(bytes: Uint8Array): string {
  if (bytes.length === 4) return [...bytes].join('.');
  const words: string[] = [];
  for (let i = 0; i < 16; i += 2) words.push(((bytes[i] << 8) | bytes[i + 1]).toString(16));
  return words
    .join(':')
    .replace(/\b0(:0)+\b/, ':')
    .replace(/:{3,}/, '::');
}

/** The GID of an IP address as address vectors carry it: IPv6 text, IPv4 as ::ffff:a.b.c.d. */
export function gidText(address: Uint8Array): string {
  return address.length === 4 ? `::ffff:${ipText(address)}` : ipText(address);
}

/** The GID of an IP address: IPv6 as it is, IPv4 mapped into ::ffff:0:0/96. */
export function gidOfAddress(address: Uint8Array): Uint8Array {
  if (address.length === 16) return address;
  const gid = new Uint8Array(16);
  gid[10] = gid[11] = 0xff;
  gid.set(address, 12);
  return gid;
}

/** The IP address of a GID: 4 bytes when it is a mapped IPv4 address, else 16. */
export function addressOfGid(gid: Uint8Array): Uint8Array {
  const isMapped = gid.subarray(0, 10).every((v) => v === 0) && gid[10] === 0xff && gid[11] === 0xff;
  return isMapped ? gid.slice(12) : gid.slice();
}

/** The sixteen bytes of a GID in text; undefined when it is none. */
export function parseGid(text: unknown): Uint8Array | undefined {
  const address = typeof text === 'string' ? parseIp(text) : undefined;
  return address && gidOfAddress(address);
}
