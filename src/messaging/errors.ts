/**
 * Errors of the messaging layer. Every one has a stable string `code`; a lost peer is a class of its own, because it is what programs handle.
 */

/**
 * Codes:
 * MSG_INVALID (bad argument or option), MSG_TRUNCATED (the message was longer than the receive buffer), MSG_CANCELLED, MSG_TIMEOUT, MSG_CLOSED (this
 * side closed the object), MSG_PEER_LOST (the peer died, closed the endpoint or cannot be reached), MSG_REFUSED (the peer said no),
 * MSG_UNSUPPORTED (the device lacks a capability), MSG_REMOTE (a request was carried out at the peer and failed there).
 */
export type MessagingErrorCode =
  | 'MSG_INVALID'
  | 'MSG_TRUNCATED'
  | 'MSG_CANCELLED'
  | 'MSG_TIMEOUT'
  | 'MSG_CLOSED'
  | 'MSG_PEER_LOST'
  | 'MSG_REFUSED'
  | 'MSG_UNSUPPORTED'
  | 'MSG_REMOTE';

const BRAND = Symbol.for('verbena.MessagingError');

/** Base class of everything messaging throws on purpose. */
export class MessagingError extends Error {
  readonly code: MessagingErrorCode;
  readonly [BRAND] = true;

  constructor(code: MessagingErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'MessagingError';
    this.code = code;
  }

  /** True for a MessagingError of any copy of this package in the process. */
  static is(value: unknown): value is MessagingError {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}

/** The other side of an endpoint is gone. Names who it was and what was being done. */
export class PeerLost extends MessagingError {
  /** Who it was, as the endpoint names it. */
  readonly peer: string;
  /** What was under way: 'tag send of 1048576 bytes', 'get'. */
  readonly operation: string;

  constructor(peer: string, operation: string, reason: string) {
    super('MSG_PEER_LOST', `${peer} is lost during ${operation}: ${reason}`);
    this.name = 'PeerLost';
    this.peer = peer;
    this.operation = operation;
  }
}

/** A message is longer than the memory of its receive. */
export function truncated(length: number, room: number): MessagingError {
  return new MessagingError(
    'MSG_TRUNCATED',
    `the message has ${length} bytes, the receive buffer ${room}: receive into a larger one, or probe first`,
  );
}
