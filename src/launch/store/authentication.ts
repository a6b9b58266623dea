/**
 * Showing that one knows the job's secret, without sending it: challenge and response with HMAC-SHA-256, in both directions.
 *
 *   server -> client   hello      { magic, protocol, version, nonce }
 *   client -> server   proof      { protocol, version, nonce, mac(secret, 'client', both nonces) }
 *   server -> client   welcome    { mac(secret, 'server', both nonces) }
 *
 * What follows is neither encrypted nor signed: the secret keeps other jobs and other users out, not somebody who can change packets on the way.
 */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

export const MAGIC = 'verbena-store';
/** Version of the protocol: both sides must have the same. */
export const PROTOCOL = 1;

/** Bytes. */
const NONCE_BYTES = 24;
/** Shortest secret that is accepted, characters. */
export const MIN_SECRET_LENGTH = 16;

/** A fresh secret: 64 hexadecimal digits. */
export function makeSecret(): string {
  return randomBytes(32).toString('hex');
}

export function makeNonce(): string {
  return randomBytes(NONCE_BYTES).toString('hex');
}

/** The proof of one side, for both nonces of this connection. */
export function proofOf(secret: string, side: 'client' | 'server', serverNonce: string, clientNonce: string): string {
  return createHmac('sha256', secret).update(`${MAGIC}/${PROTOCOL} ${side} ${serverNonce} ${clientNonce}`).digest('hex');
}

/** Compares in constant time; false for anything that is no proof. */
export function proves(given: unknown, expected: string): boolean {
  if (typeof given !== 'string' || given.length !== expected.length) return false;
  return timingSafeEqual(Buffer.from(given), Buffer.from(expected));
}
