/**
 * The two coded times of the transport: the receiver-not-ready delay and the acknowledge timeout.
 */

import { RNR_TIMER_US } from '../qp-state.js';

/** RNR delay in nanoseconds by its five-bit code. Code 0 is the longest, the rest grow. */
export const RNR_DELAY_NS: readonly number[] = RNR_TIMER_US.map((us) => us * 1000);

/** The acknowledge timeout of a five-bit code: 4.096 us times 2 to the code, in nanoseconds; 0 means never. */
export function ackTimeoutNs(code: number): number {
  return code === 0 ? 0 : 4096 * 2 ** code;
}

/**
 * How long an attempt waits after so many retries in a row: the specification allows up to four times the timeout, and a peer whose processor is busy
 * needs it more than one whose network lost a packet.
 */
export function patience(timeoutNs: number, retries: number): number {
  return timeoutNs * (retries === 0 ? 1 : retries === 1 ? 2 : 4);
}

/** `ackTimeoutNs` of every code. */
export const ACK_TIMEOUT_NS: readonly number[] = Array.from({ length: 32 }, (_, code) => ackTimeoutNs(code));
