/**
 * The invariant CRC at the end of every RoCEv2 packet.
 *
 * It is the common CRC-32 (as in zlib) over the packet as it looks to everyone along the path: what routers may change counts
 * as ones.
 *
 *     8 bytes 0xff | IP header, TOS/TTL/checksum = 0xff | UDP header, checksum = 0xff | BTH, byte 4 = 0xff | rest
 *
 * The bytes before the BTH are the same for all packets of one path but for the two length fields (and the IPv4
 * identification), so `IcrcPath` keeps them ready and remembers the CRC state after them for the last length it saw.
 *
 * **The unknown identification.** IPv4's identification is covered, yet a UDP socket never shows the sender's. A CRC is linear:
 * changing two bytes XORs the result with a value that depends on the change and on the distance to the end only. Running the
 * difference backwards over that distance (a multiplication by a power of x^-8) leaves the change itself, which must fit 16 bits.
 * So one computation either finds the only identification that makes the CRC right or says that there is none.
 */

const POLYNOMIAL = 0xedb88320;

/** Eight tables of 256: `T[k * 256 + b]` is byte b followed by k zero bytes. */
const T = buildTables();

function buildTables(): Int32Array {
  const t = new Int32Array(8 * 256);
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ POLYNOMIAL : c >>> 1;
    t[n] = c;
  }
  for (let k = 1; k < 8; k++) {
    for (let n = 0; n < 256; n++) {
      const previous = t[(k - 1) * 256 + n];
      t[k * 256 + n] = (previous >>> 8) ^ t[previous & 255];
    }
  }
  return t;
}

/** Continues a CRC register (start with -1, end with a bitwise not) over `b[at, end)`, eight bytes a step. */
function crcUpdate(register: number, b: Uint8Array, at: number, end: number): number {
  let c = register | 0;
  let i = at;
  for (const fast = end - 7; i < fast; i += 8) {
    const x = c ^ (b[i] | (b[i + 1] << 8) | (b[i + 2] << 16) | (b[i + 3] << 24));
    c =
      T[1792 + (x & 255)] ^
      T[1536 + ((x >>> 8) & 255)] ^
      T[1280 + ((x >>> 16) & 255)] ^
      T[1024 + (x >>> 24)] ^
      T[768 + b[i + 4]] ^
      T[512 + b[i + 5]] ^
      T[256 + b[i + 6]] ^
      T[b[i + 7]];
  }
  for (; i < end; i++) c = (c >>> 8) ^ T[(c ^ b[i]) & 255];
  return c;
}

/** CRC-32 of `b[at, end)` as zlib computes it. */
export function crc32(b: Uint8Array, at = 0, end = b.length): number {
  return ~crcUpdate(-1, b, at, end) >>> 0;
}

/** Product of two elements of GF(2)[x] modulo the CRC polynomial, in the CRC's bit order (bit 31 is x^0). */
function multiply(a: number, b: number): number {
  let product = 0;
  let x = b;
  for (let bit = 31; bit >= 0; bit--) {
    if ((a >>> bit) & 1) product ^= x;
    x = x & 1 ? (x >>> 1) ^ POLYNOMIAL : x >>> 1;
  }
  return product;
}

/** x^-8: what undoes one zero byte. Found by undoing eight zero bits. */
const BACK_ONE_BYTE = (() => {
  let x = 0x80000000 | 0;
  for (let bit = 0; bit < 8; bit++) x = x < 0 ? ((x ^ POLYNOMIAL) << 1) | 1 : x << 1;
  return x;
})();

const backCache = new Map<number, number>();

/** x^(-8 n), remembered by n: packets come in few lengths. */
function backBytes(n: number): number {
  const known = backCache.get(n);
  if (known !== undefined) return known;
  let result = 0x80000000 | 0;
  let power = BACK_ONE_BYTE;
  for (let k = n; k > 0; k >>>= 1) {
    if (k & 1) result = multiply(result, power);
    power = multiply(power, power);
  }
  backCache.set(n, result);
  return result;
}

/** No 16-bit identification explains the difference. */
export const NO_IDENTIFICATION = -1;

/**
 * The IPv4 identification that turns a CRC computed with identification 0 into the received one, or `NO_IDENTIFICATION`.
 * `bytesAfter` is how many covered bytes follow the identification field.
 */
export function solveIdentification(computed: number, received: number, bytesAfter: number): number {
  const change = multiply(computed ^ received, backBytes(bytesAfter + 2)) >>> 0;
  return change <= 0xffff ? ((change & 255) << 8) | (change >>> 8) : NO_IDENTIFICATION;
}

/** What a receiver learns from an ICRC. `assumed`: right for one unknown identification (odds of a false pass: 2^-16). */
export const IcrcVerdict = { bad: 0, right: 1, assumed: 2 } as const;

/**
 * The addresses a packet travels between, as far as the ICRC sees them. One object per sender, receiver and port pair.
 *
 * Addresses are 4 bytes (IPv4) or 16 (IPv6). `flowLabel` and the traffic class count as ones in IPv6, so they do not appear.
 */
export class IcrcPath {
  readonly isIpv4: boolean;
  private readonly header: Uint8Array;
  private readonly udpAt: number;
  private lastLength = -1;
  private lastIdentification = -1;
  private lastRegister = 0;
  private readonly fixed = new Uint8Array(12);

  constructor(source: Uint8Array, destination: Uint8Array, sourcePort: number, destinationPort: number) {
    if (source.length !== destination.length || (source.length !== 4 && source.length !== 16)) {
      throw new RangeError(`IP addresses of ${source.length} and ${destination.length} bytes: both must have 4 or 16`);
    }
    this.isIpv4 = source.length === 4;
    const ipBytes = this.isIpv4 ? 20 : 40;
    this.udpAt = 8 + ipBytes;
    const h = new Uint8Array(8 + ipBytes + 8).fill(0xff, 0, 8);
    if (this.isIpv4) {
      h.set([0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff], 8);
      h.set(source, 20);
      h.set(destination, 24);
    } else {
      h.set([0x6f, 0xff, 0xff, 0xff, 0, 0, 17, 0xff], 8);
      h.set(source, 16);
      h.set(destination, 32);
    }
    h.set([sourcePort >> 8, sourcePort & 255, destinationPort >> 8, destinationPort & 255, 0, 0, 0xff, 0xff], this.udpAt);
    this.header = h;
  }

  /** The CRC register after the headers of a packet with `udpPayloadBytes` (BTH to ICRC) and this identification. */
  private prefix(udpPayloadBytes: number, identification: number): number {
    if (udpPayloadBytes === this.lastLength && identification === this.lastIdentification) return this.lastRegister;
    const h = this.header;
    const udpLength = udpPayloadBytes + 8;
    if (this.isIpv4) {
      h[10] = (udpLength + 20) >> 8;
      h[11] = udpLength + 20;
      h[12] = identification >> 8;
      h[13] = identification;
    } else {
      h[12] = udpLength >> 8;
      h[13] = udpLength;
    }
    h[this.udpAt + 4] = udpLength >> 8;
    h[this.udpAt + 5] = udpLength;
    this.lastLength = udpPayloadBytes;
    this.lastIdentification = identification;
    this.lastRegister = crcUpdate(-1, h, 0, h.length);
    return this.lastRegister;
  }

  /** The ICRC of the packet whose BTH is at `b[at]` and whose padding ends at `end`. The bytes are not changed. */
  compute(b: Uint8Array, at: number, end: number, identification = 0): number {
    const f = this.fixed;
    for (let i = 0; i < 12; i++) f[i] = b[at + i];
    f[4] = 0xff;
    const register = crcUpdate(this.prefix(end - at + 4, identification), f, 0, 12);
    return ~crcUpdate(register, b, at + 12, end) >>> 0;
  }

  /** Writes the ICRC at `end` and returns the end of the packet. */
  seal(b: Uint8Array, at: number, end: number, identification = 0): number {
    const crc = this.compute(b, at, end, identification);
    b[end] = crc;
    b[end + 1] = crc >>> 8;
    b[end + 2] = crc >>> 16;
    b[end + 3] = crc >>> 24;
    return end + 4;
  }

  /**
   * Checks the ICRC stored at `end`. With identification 0 or over IPv6 the answer is `right` or `bad`; an IPv4 packet that
   * would be right with another identification is `assumed`.
   */
  check(b: Uint8Array, at: number, end: number): number {
    const received = (b[end] | (b[end + 1] << 8) | (b[end + 2] << 16) | (b[end + 3] << 24)) >>> 0;
    const computed = this.compute(b, at, end, 0);
    if (computed === received) return IcrcVerdict.right;
    if (!this.isIpv4) return IcrcVerdict.bad;
    const covered = end - at + 8 + 14;
    return solveIdentification(computed, received, covered) === NO_IDENTIFICATION ? IcrcVerdict.bad : IcrcVerdict.assumed;
  }
}
