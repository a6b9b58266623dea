/**
 * Errors thrown by verbs calls. Every one has a stable string `code`, and a message that says what to do. Errors of requests
 * that were accepted arrive as completions instead (status.ts).
 */

/**
 * Codes:
 * VERBS_INVALID (bad argument or option; EINVAL), VERBS_ILLEGAL (the QP type, state or capability forbids it), VERBS_QUEUE_FULL (ENOMEM of
 * ibv_post_*), VERBS_BUSY (EBUSY: the object is still used), VERBS_NO_MEMORY, VERBS_CLOSED, VERBS_UNSUPPORTED (a capability the device lacks),
 * VERBS_NO_DEVICE, VERBS_REFUSED (connection rejected or not permitted), VERBS_TIMEOUT, VERBS_PEER_LOST, VERBS_SYSTEM (a system call failed).
 */
export type VerbsErrorCode =
  | 'VERBS_INVALID'
  | 'VERBS_ILLEGAL'
  | 'VERBS_QUEUE_FULL'
  | 'VERBS_BUSY'
  | 'VERBS_NO_MEMORY'
  | 'VERBS_CLOSED'
  | 'VERBS_UNSUPPORTED'
  | 'VERBS_NO_DEVICE'
  | 'VERBS_REFUSED'
  | 'VERBS_TIMEOUT'
  | 'VERBS_PEER_LOST'
  | 'VERBS_SYSTEM';

const BRAND = Symbol.for('verbena.VerbsError');

/** Base class of everything verbs calls throw on purpose. */
export class VerbsError extends Error {
  readonly code: VerbsErrorCode;
  /** In a chain of work requests: the index of the first rejected one; the ones before it were posted. */
  readonly badIndex: number | undefined;
  /** Private data of a rejection (rdma-cm), if the peer sent some. */
  readonly privateData: Uint8Array | undefined;
  readonly [BRAND] = true;

  constructor(
    code: VerbsErrorCode,
    message: string,
    details: { cause?: unknown; badIndex?: number; privateData?: Uint8Array | undefined } = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'VerbsError';
    this.code = code;
    this.badIndex = details.badIndex;
    this.privateData = details.privateData;
  }

  /** True for a VerbsError of any copy of this package in the process. */
  static is(value: unknown): value is VerbsError {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}
