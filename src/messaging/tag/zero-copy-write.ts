/** The payload of an eager-zcopy send on its way: a WRITE from the user's memory into the bulk part of the peer's ring. Objects are used again. */

import { PeerLost } from '../errors.js';
import type { Lane, Posted } from '../lane.js';
import type { Payload } from '../payload.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';

export class ZeroCopyWrite implements Posted {
  readonly #worker: VerbsWorker;
  readonly #spare: ZeroCopyWrite[];
  #endpoint!: VerbsEndpoint;
  #request = 0;
  #address = 0;
  /** The device has taken it. */
  isPosted = false;

  constructor(worker: VerbsWorker, spare: ZeroCopyWrite[]) {
    this.#worker = worker;
    this.#spare = spare;
  }

  prepare(endpoint: VerbsEndpoint, request: number, address: number): void {
    this.#endpoint = endpoint;
    this.#request = request;
    this.#address = address;
    this.isPosted = false;
  }

  post(lane: Lane, id: number): void {
    const { requests } = this.#worker;
    const payload = requests.find(this.#request)?.payload as Payload;
    const local = payload.registrations[lane.port.index] as NonNullable<Payload['registrations'][0]>;
    lane.move(false, local, payload.offsetIn(local), payload.length, id, this.#address, this.#endpoint.ringRemote.rkey);
    lane.port.operations++;
    this.isPosted = true;
  }

  done(lane: Lane, status: number, words: string): void {
    const { requests, rendezvous } = this.#worker;
    if (this.isPosted) lane.port.operations--;
    this.#spare.push(this);
    const row = requests.find(this.#request);
    if (row === undefined) return;
    rendezvous.unpin(row);
    if (status === 0) requests.complete(row);
    else requests.fail(row, new PeerLost(this.#endpoint.peer, requests.describe(row), words));
  }
}
