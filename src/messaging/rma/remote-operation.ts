/** Puts and gets under way, as objects that are used again: beginning one allocates nothing. */

import type { RemoteStart } from '../endpoint.js';
import { PeerLost } from '../errors.js';
import type { Lane, Posted } from '../lane.js';
import type { Payload } from '../payload.js';
import type { VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';

/** One put or get. */
class RemoteOperation implements Posted, RemoteStart {
  readonly #worker: VerbsWorker;
  readonly #spare: RemoteOperation[];
  #endpoint!: VerbsEndpoint;
  #payload: Payload | undefined;
  #request = 0;
  #isPut = false;
  #address = 0;
  #rkey = 0;

  constructor(worker: VerbsWorker, spare: RemoteOperation[]) {
    this.#worker = worker;
    this.#spare = spare;
  }

  prepare(endpoint: VerbsEndpoint, request: number, payload: Payload, isPut: boolean, address: number, rkey: number): void {
    this.#endpoint = endpoint;
    this.#request = request;
    this.#payload = payload;
    this.#isPut = isPut;
    this.#address = address;
    this.#rkey = rkey;
  }

  begin(): void {
    this.#endpoint.lanes[0].submit(this);
  }

  post(lane: Lane, id: number): void {
    const payload = this.#payload as Payload;
    const local = payload.registrations[lane.port.index] as NonNullable<Payload['registrations'][0]>;
    lane.move(!this.#isPut, local, payload.offsetIn(local), payload.length, id, this.#address, this.#rkey);
  }

  done(_: Lane, status: number, words: string): void {
    const { requests, rendezvous } = this.#worker;
    const endpoint = this.#endpoint;
    const row = requests.find(this.#request);
    const isPut = this.#isPut;
    this.#payload = undefined;
    this.#spare.push(this);
    if (row !== undefined) {
      rendezvous.unpin(row);
      if (status === 0) requests.complete(row);
      else requests.fail(row, new PeerLost(endpoint.peer, isPut ? 'put' : 'get', words));
    }
    endpoint.endRemote();
  }
}

export class RemoteOperations {
  readonly #worker: VerbsWorker;
  readonly #spare: RemoteOperation[] = [];

  constructor(worker: VerbsWorker) {
    this.#worker = worker;
  }

  take(): RemoteOperation {
    return this.#spare.pop() ?? new RemoteOperation(this.#worker, this.#spare);
  }
}
