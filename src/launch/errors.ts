/**
 * Errors of launching, rendezvous and liveness. Each has a stable `code`, and one paragraph that says what happened and what to do.
 */

/**
 * LAUNCH_INVALID: a bad argument or option. LAUNCH_ENVIRONMENT: the launcher's variables are missing or contradict each other.
 * LAUNCH_NO_SCRIPT: the script is not there. LAUNCH_HOST: a host cannot be reached or cannot start ranks. LAUNCH_PORT_IN_USE.
 * LAUNCH_REFUSED: wrong or missing secret. LAUNCH_VERSION: other version on the other side. LAUNCH_DUPLICATE_RANK. LAUNCH_SIZE_MISMATCH.
 * LAUNCH_TIMEOUT: somebody or something did not arrive in time. LAUNCH_RANK_LOST: a rank died. LAUNCH_COORDINATOR_LOST: the store's holder died.
 * LAUNCH_FULL: the store's memory bound. LAUNCH_CLOSED: used after the end. LAUNCH_UNREACHABLE: two ranks cannot talk on an address.
 */
export type LaunchErrorCode =
  | 'LAUNCH_INVALID'
  | 'LAUNCH_ENVIRONMENT'
  | 'LAUNCH_NO_SCRIPT'
  | 'LAUNCH_HOST'
  | 'LAUNCH_PORT_IN_USE'
  | 'LAUNCH_REFUSED'
  | 'LAUNCH_VERSION'
  | 'LAUNCH_DUPLICATE_RANK'
  | 'LAUNCH_SIZE_MISMATCH'
  | 'LAUNCH_TIMEOUT'
  | 'LAUNCH_RANK_LOST'
  | 'LAUNCH_COORDINATOR_LOST'
  | 'LAUNCH_FULL'
  | 'LAUNCH_CLOSED'
  | 'LAUNCH_UNREACHABLE';

const BRAND = Symbol.for('verbena.LaunchError');

/** Everything this layer throws on purpose. */
export class LaunchError extends Error {
  readonly code: LaunchErrorCode;
  /** The rank it is about, where it is about one. */
  readonly rank: number | undefined;
  readonly [BRAND] = true;

  constructor(code: LaunchErrorCode, message: string, details: { cause?: unknown; rank?: number | undefined } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'LaunchError';
    this.code = code;
    this.rank = details.rank;
  }

  /** True for a LaunchError of any copy of this package in the process. */
  static is(value: unknown): value is LaunchError {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}

/** What a rank is told that was lost to the others and has come back. */
export function takenForDead(reason: string): string {
  return `the other ranks took this one for dead and go on without it: ${reason}`;
}
