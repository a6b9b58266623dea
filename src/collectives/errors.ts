/** Errors of the collectives. Every one has a stable string `code`; a lost rank is a class of its own, because it is what programs handle. */

/**
 * COLL_INVALID (bad argument), COLL_MISMATCH (another rank called something else), COLL_PEER_LOST (a rank's process ended), COLL_TIMEOUT, COLL_ABORTED (this or
 * another rank aborted or gave up), COLL_CLOSED (a rank closed the communicator), COLL_SYSTEM (the operating system refused).
 */
export type CollectiveErrorCode =
  | 'COLL_INVALID'
  | 'COLL_MISMATCH'
  | 'COLL_PEER_LOST'
  | 'COLL_TIMEOUT'
  | 'COLL_ABORTED'
  | 'COLL_CLOSED'
  | 'COLL_SYSTEM';

/** Thrown by collectives; `code` says which kind. */
export class CollectiveError extends Error {
  readonly code: CollectiveErrorCode;

  constructor(code: CollectiveErrorCode, message: string) {
    super(message);
    this.name = 'CollectiveError';
    this.code = code;
  }
}

/** The process of a rank ended. The communicator is broken; `shrink()` gives one of those who are left. */
export class RankLost extends CollectiveError {
  readonly rank: number;

  constructor(rank: number, during: string) {
    super('COLL_PEER_LOST', `rank ${rank} is lost: its process ended during ${during}; shrink() goes on without it`);
    this.name = 'RankLost';
    this.rank = rank;
  }
}
