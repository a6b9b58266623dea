/** Active messages on UCX's: the user's header travels behind ours; what is large is fetched when the handler asks for it, and dropped when it does not. */

import { Handlers, tooLong } from '../am/handlers.js';
import type { Messages } from '../engine.js';
import { MessagingError } from '../errors.js';
import { type Payload, payloadOf } from '../payload.js';
import { KIND_AM, KIND_AM_RECV, type RequestRow } from '../requests.js';
import type { Arrival } from './arrival.js';
import type { UcxEndpoint } from './endpoint.js';
import { HEADER_BYTES } from './rings.js';
import { MESSAGE, W_LO } from './wire.js';
import type { UcxWorker } from './worker.js';

const MOST_HEADER_BYTES = 4096;

export class UcxMessages extends Handlers implements Messages {
  readonly #worker: UcxWorker;
  readonly #longest: number;

  constructor(worker: UcxWorker) {
    super(worker);
    this.#worker = worker;
    this.#longest = Math.min(MOST_HEADER_BYTES, worker.rings.native.headerLimit - HEADER_BYTES);
  }

  send(endpoint: UcxEndpoint, id: number, header: Uint8Array, payload: Payload): RequestRow | undefined {
    if (header.length > this.#longest) {
      throw new MessagingError('MSG_INVALID', `a header is at most ${this.#longest} bytes here: got ${header.length}`);
    }
    if (endpoint.state === 'ready' && !endpoint.closedByPeer) return this.#send(endpoint, id, header, payload, undefined);
    return this.#worker.postWhenReady(endpoint, KIND_AM, payload, (row) => this.#send(endpoint, id, header, payload, row));
  }

  #send(
    endpoint: UcxEndpoint,
    id: number,
    header: Uint8Array,
    payload: Payload,
    begun: RequestRow | undefined,
  ): RequestRow | undefined {
    const { rings } = this.#worker;
    endpoint.address(MESSAGE, id, header.length);
    rings.commandBytes.set(header, rings.extraAt);
    return this.#worker.post(endpoint, KIND_AM, header.length, payload, begun, 0);
  }

  arrived(endpoint: UcxEndpoint, arrival: Arrival): void {
    const worker = this.#worker;
    const { dataKind, data: handle, length, at, isInline } = arrival;
    const data = isInline ? arrival.bytes.subarray(at, at + length) : undefined;
    let isOpen = true;
    this.run(arrival.words[arrival.header + W_LO], {
      endpoint,
      header: arrival.userHeader,
      data,
      length,
      receive: async (into) => {
        const payload = payloadOf(into);
        if (data === undefined && !isOpen) {
          throw new MessagingError(
            'MSG_INVALID',
            'the payload was received or dropped already: ask for it before the first await',
          );
        }
        if (payload.length < length) throw tooLong(length, payload.length);
        if (data !== undefined) {
          payload.unpack(0, length, data, 0);
          return;
        }
        isOpen = false;
        const row = worker.requests.begin(KIND_AM_RECV, payload);
        row.endpoint = endpoint.id;
        const request = worker.own(row.handle + 1);
        worker.fetch(endpoint, row, dataKind, handle, payload, length);
        await request.wait();
      },
    });
    if (data === undefined && isOpen) {
      isOpen = false;
      worker.rings.discard(dataKind, handle);
    }
  }
}
