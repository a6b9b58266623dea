/**
 * The two coded times of the transport: the receiver-not-ready delay and the acknowledge timeout.
 */

/** RNR delay in nanoseconds by its five-bit code. Code 0 is the longest, the rest grow. */
export const RNR_DELAY_NS: readonly number[] = [
  655_360_000, 10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000, 160_000, 240_000, 320_000, 480_000, 640_000, 960_000,
  1_280_000, 1_920_000, 2_560_000, 3_840_000, 5_120_000, 7_680_000, 10_240_000, 15_360_000, 20_480_000, 30_720_000, 40_960_000,
  61_440_000, 81_920_000, 122_880_000, 163_840_000, 245_760_000, 327_680_000, 491_520_000,
];

/** The smallest code whose delay is at least `delayNs`; the longest when none is. */
export function rnrCode(delayNs: number): number {
  for (let code = 1; code < 32; code++) if (RNR_DELAY_NS[code] >= delayNs) return code;
  return 0;
}

/** The acknowledge timeout of a five-bit code: 4.096 us times 2 to the code, in nanoseconds; 0 means never. */
export function ackTimeoutNs(code: number): number {
  return code === 0 ? 0 : 4096 * 2 ** code;
}

/** The smallest code whose timeout is at least `timeoutNs`, at most 31. */
export function ackTimeoutCode(timeoutNs: number): number {
  for (let code = 1; code < 31; code++) if (ackTimeoutNs(code) >= timeoutNs) return code;
  return 31;
}
