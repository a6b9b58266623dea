/**
 * One InfiniBand packet, from the BTH to the end of the padding, decoded into or encoded from one reusable object.
 *
 *     BTH    0  opcode | 1  solicited, migrated, pad count, version | 2  P_Key | 4  FECN, BECN | 5  destination QP
 *            8  acknowledge request | 9  PSN                                                            (12 bytes)
 *     DETH   Q_Key, source QP        8      RETH       virtual address, R_Key, length                    16
 *     AtomicETH  address, R_Key, swap or add, compare  28      AETH  syndrome, MSN                       4
 *     AtomicAckETH  original value   8      ImmDt      immediate   4       IETH  R_Key to invalidate      4
 *     payload, zero to three bytes of padding; the ICRC (icrc.ts) follows
 *
 * The object has every field of every header, so that it keeps one hidden class whatever the opcode, and a reader looks
 * only at the fields its opcode has. Addresses are safe integers; atomic operands are pairs of 32-bit halves.
 */

import { Flag, HEADER_LENGTH, OPCODE_FLAGS } from './opcode.js';

/** Why a packet was not decoded. `ok` is 0, so a caller tests the result as a truth value. */
export const DecodeError = { ok: 0, tooShort: 1, badVersion: 2, unknownOpcode: 3, badPadding: 4 } as const;

/** What stands for an address that does not fit a safe integer: no region can hold it. */
export const BAD_ADDRESS = -1;

/** The fields of a packet. Numbers are unsigned unless they say otherwise. */
export class Packet {
  opcode = 0;
  /** `OPCODE_FLAGS` of the opcode, set by `decodePacket`. */
  flags = 0;
  solicited = false;
  migrated = false;
  padCount = 0;
  partitionKey = 0xffff;
  forwardCongestion = false;
  backwardCongestion = false;
  destQp = 0;
  ackRequest = false;
  psn = 0;

  /** RETH and AtomicETH: where. `BAD_ADDRESS` when the wire carried more than 53 bits. */
  remoteAddress = 0;
  remoteKey = 0;
  /** RETH: how many bytes the whole operation moves. */
  dmaLength = 0;

  /** AETH. */
  syndrome = 0;
  msn = 0;

  /** AtomicETH: the swap or add operand, then the compare operand. */
  swapHi = 0;
  swapLo = 0;
  compareHi = 0;
  compareLo = 0;

  /** AtomicAckETH: what stood there before. */
  originalHi = 0;
  originalLo = 0;

  immediate = 0;
  invalidateKey = 0;
  queueKey = 0;
  sourceQp = 0;

  /** Where the payload starts in the buffer it was decoded from, and its length without padding. */
  payloadAt = 0;
  payloadLength = 0;
}

/** Big-endian fields, as all of the transport's are. */
export function get32(b: Uint8Array, at: number): number {
  return ((b[at] << 24) | (b[at + 1] << 16) | (b[at + 2] << 8) | b[at + 3]) >>> 0;
}

function get24(b: Uint8Array, at: number): number {
  return (b[at] << 16) | (b[at + 1] << 8) | b[at + 2];
}

export function put32(b: Uint8Array, at: number, value: number): void {
  b[at] = value >>> 24;
  b[at + 1] = value >>> 16;
  b[at + 2] = value >>> 8;
  b[at + 3] = value;
}

function put24(b: Uint8Array, at: number, value: number): void {
  b[at] = value >>> 16;
  b[at + 1] = value >>> 8;
  b[at + 2] = value;
}

function getAddress(b: Uint8Array, at: number): number {
  const hi = get32(b, at);
  return hi < 0x200000 ? hi * 0x100000000 + get32(b, at + 4) : BAD_ADDRESS;
}

function putAddress(b: Uint8Array, at: number, address: number): void {
  put32(b, at, Math.floor(address / 0x100000000));
  put32(b, at + 4, address % 0x100000000);
}

/**
 * Decodes the packet in `b[at, end)`; `end` is where the ICRC begins. Returns a `DecodeError`; fields of headers that the
 * opcode does not have keep their old values. The padding count is checked against the length, so `payloadLength` is never negative.
 */
export function decodePacket(b: Uint8Array, at: number, end: number, p: Packet): number {
  if (end - at < 12 || end > b.length) return DecodeError.tooShort;
  const opcode = b[at];
  const flags = OPCODE_FLAGS[opcode];
  if (flags === 0) return DecodeError.unknownOpcode;
  const second = b[at + 1];
  if ((second & 0x0f) !== 0) return DecodeError.badVersion;
  const payloadAt = at + HEADER_LENGTH[opcode];
  if (payloadAt > end) return DecodeError.tooShort;
  p.opcode = opcode;
  p.flags = flags;
  p.solicited = (second & 0x80) !== 0;
  p.migrated = (second & 0x40) !== 0;
  p.padCount = (second >> 4) & 3;
  p.partitionKey = (b[at + 2] << 8) | b[at + 3];
  p.forwardCongestion = (b[at + 4] & 0x80) !== 0;
  p.backwardCongestion = (b[at + 4] & 0x40) !== 0;
  p.destQp = get24(b, at + 5);
  p.ackRequest = (b[at + 8] & 0x80) !== 0;
  p.psn = get24(b, at + 9);
  p.payloadAt = payloadAt;
  p.payloadLength = end - payloadAt - p.padCount;
  if (p.payloadLength < 0 || ((flags & Flag.hasPayload) === 0 && end !== payloadAt)) return DecodeError.badPadding;
  if ((end - at) & 3) return DecodeError.badPadding;

  let h = at + 12;
  if (flags & Flag.hasDeth) {
    p.queueKey = get32(b, h);
    p.sourceQp = get24(b, h + 5);
    h += 8;
  }
  if (flags & Flag.hasReth) {
    p.remoteAddress = getAddress(b, h);
    p.remoteKey = get32(b, h + 8);
    p.dmaLength = get32(b, h + 12);
    h += 16;
  }
  if (flags & Flag.hasAtomic) {
    p.remoteAddress = getAddress(b, h);
    p.remoteKey = get32(b, h + 8);
    p.swapHi = get32(b, h + 12);
    p.swapLo = get32(b, h + 16);
    p.compareHi = get32(b, h + 20);
    p.compareLo = get32(b, h + 24);
    h += 28;
  }
  if (flags & Flag.hasAeth) {
    p.syndrome = b[h];
    p.msn = get24(b, h + 1);
    h += 4;
  }
  if (flags & Flag.hasAtomicAck) {
    p.originalHi = get32(b, h);
    p.originalLo = get32(b, h + 4);
    h += 8;
  }
  if (flags & Flag.hasImm) {
    p.immediate = get32(b, h);
    h += 4;
  }
  if (flags & Flag.hasIeth) p.invalidateKey = get32(b, h);
  return DecodeError.ok;
}

/**
 * Writes the headers of `p` at `b[at]` and returns where the payload goes. `p.payloadLength` must be set: the padding count
 * follows from it. The caller puts the payload there and then calls `padPacket`.
 */
export function encodeHeaders(p: Packet, b: Uint8Array, at: number): number {
  const flags = OPCODE_FLAGS[p.opcode];
  p.padCount = -p.payloadLength & 3;
  b[at] = p.opcode;
  b[at + 1] = (p.solicited ? 0x80 : 0) | (p.migrated ? 0x40 : 0) | (p.padCount << 4);
  b[at + 2] = p.partitionKey >>> 8;
  b[at + 3] = p.partitionKey;
  b[at + 4] = (p.forwardCongestion ? 0x80 : 0) | (p.backwardCongestion ? 0x40 : 0);
  put24(b, at + 5, p.destQp);
  b[at + 8] = p.ackRequest ? 0x80 : 0;
  put24(b, at + 9, p.psn);
  let h = at + 12;
  if (flags & Flag.hasDeth) {
    put32(b, h, p.queueKey);
    put32(b, h + 4, p.sourceQp);
    h += 8;
  }
  if (flags & Flag.hasReth) {
    putAddress(b, h, p.remoteAddress);
    put32(b, h + 8, p.remoteKey);
    put32(b, h + 12, p.dmaLength);
    h += 16;
  }
  if (flags & Flag.hasAtomic) {
    putAddress(b, h, p.remoteAddress);
    put32(b, h + 8, p.remoteKey);
    put32(b, h + 12, p.swapHi);
    put32(b, h + 16, p.swapLo);
    put32(b, h + 20, p.compareHi);
    put32(b, h + 24, p.compareLo);
    h += 28;
  }
  if (flags & Flag.hasAeth) {
    b[h] = p.syndrome;
    put24(b, h + 1, p.msn);
    h += 4;
  }
  if (flags & Flag.hasAtomicAck) {
    put32(b, h, p.originalHi);
    put32(b, h + 4, p.originalLo);
    h += 8;
  }
  if (flags & Flag.hasImm) {
    put32(b, h, p.immediate);
    h += 4;
  }
  if (flags & Flag.hasIeth) {
    put32(b, h, p.invalidateKey);
    h += 4;
  }
  return h;
}

/** Zeroes the padding after a payload that ends at `b[end]` and returns where the ICRC goes. */
export function padPacket(p: Packet, b: Uint8Array, end: number): number {
  for (let i = 0; i < p.padCount; i++) b[end + i] = 0;
  return end + p.padCount;
}
