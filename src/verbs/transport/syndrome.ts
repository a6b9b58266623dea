/**
 * The AETH syndrome: what an acknowledge says.
 *
 *     bits 6..5   00 ACK   01 RNR NAK   11 NAK          bits 4..0   credits | RNR timer code | NAK code
 */

/** ACK with the credit count that means "no flow control by credits". */
export const ACK_UNLIMITED = 0x1f;

export const Nak = {
  sequenceError: 0x60,
  invalidRequest: 0x61,
  remoteAccess: 0x62,
  remoteOperational: 0x63,
} as const;

export const SyndromeClass = { ack: 0, rnr: 1, reserved: 2, nak: 3 } as const;

export function syndromeClass(syndrome: number): number {
  return (syndrome >> 5) & 3;
}

/** The RNR NAK syndrome of a timer code. */
export function rnrSyndrome(timerCode: number): number {
  return 0x20 | (timerCode & 31);
}
