/**
 * Carries transfers: gives their fragments to lanes, oldest transfer first, and hears when each has arrived.
 *
 * ```
 *   endpoint.carried   [ transfer | transfer | transfer ]
 *                           │ fragments, to every lane that has finished one, so a faster lane moves more
 *                        lane 0   lane 1   lane 2            a lane that fails puts its fragments back for the others
 * ```
 * Where the device copies with this thread's CPU (mapped memory) one fragment is under way at a time, so `poll` stays short; and the peer, if it polls
 * too, takes fragments from the other end (claim-board.ts): two CPUs carry one message.
 */

import type { Lane, Posted } from '../lane.js';
import type { Registration } from '../memory/registration-cache.js';
import type { Payload } from '../payload.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import { HELP, HELPED } from '../wire/slot.js';
import type { ClaimBoard } from './claim-board.js';
import { ROLE_HELP, ROLE_PUT, Transfer } from './transfer.js';

/** Fragments that one lane has under way: of a transfer that is cut over lanes, and of whole ones. */
const PER_LANE_SPLIT = 2;
const PER_LANE_WHOLE = 16;
/** Transfers for which help is asked before their turn comes. */
const ASK_AHEAD = 2;

/** One fragment on a lane. */
class Fragment implements Posted {
  transfer!: Transfer;
  at = 0;
  count = 0;
  readonly #carrier: Carrier;

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  post(lane: Lane, id: number): void {
    const { transfer, at, count } = this;
    const payload = transfer.payload as Payload;
    const local = payload.registrations[lane.port.index] as Registration;
    const start = at * transfer.fragmentBytes;
    const reads = transfer.role !== ROLE_PUT && transfer.role !== ROLE_HELP;
    const offset = payload.offsetIn(local) + start;
    lane.move(reads, local, offset, count, id, transfer.addresses[lane.path] + start, transfer.rkeys[lane.path]);
  }

  done(lane: Lane, status: number, words: string): void {
    this.#carrier.fragmentDone(this, lane, status, words);
  }
}

export class Carrier {
  readonly #spare: Transfer[] = [];
  readonly #spareFragments: Fragment[] = [];
  readonly #f64 = new Float64Array(1);
  readonly #address = new Int32Array(this.#f64.buffer);
  readonly #more = new Int32Array(6);
  #advancing = false;
  /** Called when a transfer of this side's requests is over; `failure` undefined is success. */
  ended: (transfer: Transfer, failure: string | undefined) => void = () => {};

  /** A transfer to be filled and given to `begin`. */
  take(): Transfer {
    return this.#spare.pop() ?? new Transfer();
  }

  begin(transfer: Transfer): void {
    const endpoint = transfer.endpoint as VerbsEndpoint;
    endpoint.carried.push(transfer);
    if (endpoint.carried.length <= ASK_AHEAD) this.#askForHelp(endpoint, transfer);
    this.advance(endpoint);
  }

  /** Asks the sender to carry from the other end, if it is awake. */
  #askForHelp(endpoint: VerbsEndpoint, transfer: Transfer): void {
    const board = endpoint.boardIn;
    if (transfer.role === ROLE_PUT || transfer.role === ROLE_HELP || transfer.entry >= 0) return;
    if (board === undefined || transfer.isSplit || transfer.fragments < 2 || endpoint.peerSleeps) return;
    const entry = board.open();
    if (entry < 0) return;
    transfer.entry = entry;
    endpoint.helped[entry] = transfer;
    const payload = transfer.payload as Payload;
    const local = payload.registrations[endpoint.port.index] as Registration;
    this.#f64[0] = local.region.addr + payload.offsetIn(local);
    const more = this.#more;
    more[0] = transfer.fragmentBytes;
    more[1] = local.region.rkey;
    more[2] = this.#address[0];
    more[3] = this.#address[1];
    more[4] = transfer.fragments;
    more[5] = 0;
    endpoint.control(HELP, transfer.peerRequest, entry, more);
  }

  /** Gives fragments to the lanes of an endpoint. Returns how many. */
  advance(endpoint: VerbsEndpoint): number {
    if (this.#advancing) return 0;
    this.#advancing = true;
    let n = 0;
    try {
      const { lanes, carried } = endpoint;
      for (let i = 0; i < lanes.length && carried.length > 0; i++) {
        const lane = lanes[i];
        while (lane?.alive && this.#feed(endpoint, lane)) n++;
      }
      for (let i = carried.length - 1; i >= 0; i--) this.#endIfOver(carried[i]);
    } finally {
      this.#advancing = false;
    }
    return n;
  }

  /** Posts the next fragment on a lane. False when there is none for it, or it has enough. */
  #feed(endpoint: VerbsEndpoint, lane: Lane): boolean {
    const { carried } = endpoint;
    for (let i = 0; i < carried.length; i++) {
      const transfer = carried[i];
      if ((lane.index > 0 && !transfer.isSplit) || lane.path >= transfer.paths || transfer.failure !== undefined) continue;
      const most = endpoint.mapped ? 1 : transfer.isSplit ? PER_LANE_SPLIT : PER_LANE_WHOLE;
      if (lane.fragments >= most) return false;
      const at = this.#claim(endpoint, transfer);
      if (at < 0) continue;
      const fragment = this.#spareFragments.pop() ?? new Fragment(this);
      fragment.transfer = transfer;
      fragment.at = at;
      fragment.count = Math.min(transfer.fragmentBytes, transfer.length - at * transfer.fragmentBytes);
      transfer.active++;
      lane.fragments++;
      lane.port.operations++;
      lane.submit(fragment);
      return true;
    }
    return false;
  }

  #claim(endpoint: VerbsEndpoint, transfer: Transfer): number {
    if (transfer.returned.length > 0) return transfer.returned.pop() as number;
    if (transfer.role === ROLE_HELP) {
      const at = (endpoint.boardOut as ClaimBoard).claim(transfer.entry, transfer.fragments, true);
      transfer.exhausted = at < 0;
      return at;
    }
    if (transfer.next === 0 && transfer.entry < 0) this.#askForHelp(endpoint, transfer);
    if (transfer.entry >= 0) {
      transfer.next = 1;
      return (endpoint.boardIn as ClaimBoard).claim(transfer.entry, transfer.fragments, false);
    }
    return transfer.next < transfer.fragments ? transfer.next++ : -1;
  }

  /** Called by a fragment. */
  fragmentDone(fragment: Fragment, lane: Lane, status: number, words: string): void {
    const { transfer, at, count } = fragment;
    this.#spareFragments.push(fragment);
    transfer.active--;
    lane.fragments--;
    lane.port.operations--;
    if (transfer.over) return;
    const endpoint = transfer.endpoint as VerbsEndpoint;
    if (status === 0) {
      transfer.done++;
      lane.counted += count;
    } else if (
      transfer.isSplit &&
      endpoint.lanes.some((other) => other?.alive && other !== lane && other.path < transfer.paths)
    ) {
      transfer.returned.push(at);
    } else {
      transfer.failure ??= words;
    }
    this.#endIfOver(transfer);
    this.advance(endpoint);
  }

  /** The sender is done with a transfer of this receiver: it moved `count` fragments, or failed at one. */
  helped(endpoint: VerbsEndpoint, entry: number, count: number, failed: boolean): void {
    const transfer = endpoint.helped[entry];
    endpoint.helped[entry] = undefined;
    endpoint.boardIn?.close(entry);
    if (transfer === undefined) return;
    transfer.helped = count;
    if (failed) transfer.failure ??= 'the sender could not write its part';
    this.#endIfOver(transfer);
  }

  #endIfOver(transfer: Transfer): void {
    if (transfer.over || transfer.active > 0) return;
    const endpoint = transfer.endpoint as VerbsEndpoint;
    const { failure } = transfer;
    if (transfer.role === ROLE_HELP) {
      if (!transfer.exhausted && failure === undefined) return;
      this.#more.fill(0);
      this.#more[0] = failure === undefined ? 0 : 1;
      this.#forget(endpoint, transfer);
      endpoint.control(HELPED, transfer.entry, transfer.done, this.#more);
    } else {
      // A failed transfer waits for the helper too: until then it may write.
      const helper = transfer.entry >= 0 && endpoint.helped[transfer.entry] === transfer;
      if (failure === undefined ? transfer.done + transfer.helped < transfer.fragments : helper) return;
      if (helper) endpoint.helped[transfer.entry] = undefined;
      this.#forget(endpoint, transfer);
      this.ended(transfer, failure);
    }
    transfer.endpoint = undefined;
    transfer.payload = undefined;
    this.#spare.push(transfer);
  }

  #forget(endpoint: VerbsEndpoint, transfer: Transfer): void {
    transfer.over = true;
    const at = endpoint.carried.indexOf(transfer);
    if (at >= 0) endpoint.carried.splice(at, 1);
  }

  /** The endpoint is gone: nothing of it is carried any more. */
  abandon(endpoint: VerbsEndpoint): void {
    for (const transfer of endpoint.carried.splice(0)) transfer.over = true;
    endpoint.helped.fill(undefined);
  }
}
