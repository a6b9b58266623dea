/**
 * A transfer: the bytes of one rendezvous on their way, cut into fragments. Objects are used again, so carrying a message allocates nothing.
 */

import type { Payload } from '../payload.js';
import { MOST_RAILS } from '../rail.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';

/** The receiver reads the sender's memory. */
export const ROLE_GET = 0;
/** The sender writes into the receiver's memory. */
export const ROLE_PUT = 1;
/** The sender writes fragments of a transfer that the receiver reads. */
export const ROLE_HELP = 2;

export class Transfer {
  endpoint: VerbsEndpoint | undefined;
  payload: Payload | undefined;
  role = ROLE_GET;
  /** Row of this side's request, and the request of the peer. */
  request = 0;
  peerRequest = 0;
  /** Where the peer's memory is, by path. */
  readonly addresses = new Float64Array(MOST_RAILS);
  readonly rkeys = new Uint32Array(MOST_RAILS);
  paths = 1;
  length = 0;
  /** Bytes of a fragment; the last may be shorter. */
  fragmentBytes = 0;
  fragments = 0;
  /** May go over all lanes. */
  isSplit = false;
  /** The next fragment, where claims are not shared with the peer. */
  next = 0;
  /** Fragments moved here, moved by the peer, and under way. */
  done = 0;
  helped = 0;
  active = 0;
  /** Entry of the claim board, or -1. */
  entry = -1;
  /** There was no fragment left at the last look. */
  exhausted = false;
  over = false;
  /** Why a fragment failed that nobody else can move. */
  failure: string | undefined;
  /** Fragments given back by a lane that failed. */
  readonly returned: number[] = [];

  /** Makes the object ready for another transfer. */
  reset(endpoint: VerbsEndpoint, payload: Payload, role: number, length: number, fragmentBytes: number): void {
    this.endpoint = endpoint;
    this.payload = payload;
    this.role = role;
    this.length = length;
    this.fragmentBytes = fragmentBytes;
    this.fragments = Math.ceil(length / fragmentBytes);
    this.paths = 1;
    this.isSplit = false;
    this.next = 0;
    this.done = 0;
    this.helped = 0;
    this.active = 0;
    this.entry = -1;
    this.exhausted = false;
    this.over = false;
    this.failure = undefined;
    this.returned.length = 0;
  }
}
