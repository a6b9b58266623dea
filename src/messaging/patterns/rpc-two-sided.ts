/**
 * RPC in the two-sided form: SEND the request, RECV the reply. The server's CPU takes a completion, runs the handler and posts a SEND for every call.
 *
 * ```
 *   client  SEND request ──> [receive buffer of the server] ──poll, handler──> SEND reply ──> [receive buffer of the client]
 * ```
 */

import type { Device, MemoryRegion, PreparedRecv, PreparedSend, ProtectionDomain, QueuePair } from '../../verbs/index.js';
import { WC_RECV } from '../../verbs/opcode.js';
import { WorkCompletions } from '../../verbs/work-completions.js';

/** Fills the reply and returns its length. Both are views that are valid during the call. */
export type RpcHandler = (request: Uint8Array, reply: Uint8Array) => number;

export interface TwoSidedRpcOptions {
  /** Longest request and reply, bytes. Default 256. */
  readonly messageBytes?: number;
  /** Receive buffers. Default 16. */
  readonly depth?: number;
}

const SIGNALED_EVERY = 8;

/** One side of the connection; both sides have the same object, and whoever gives a handler is the server. */
export class TwoSidedRpc {
  readonly #qp: QueuePair;
  readonly #memory: MemoryRegion;
  readonly #send: PreparedSend;
  readonly #receive: PreparedRecv;
  readonly #bytes: number;
  readonly #wcs = new WorkCompletions(16);
  readonly #handler: RpcHandler | undefined;
  readonly #sendWcs = new WorkCompletions(4);
  #sent = 0;
  #replyAt = -1;
  #replyLength = 0;

  /** @param qp connected; its queues must be this object's alone. */
  constructor(device: Device, pd: ProtectionDomain, qp: QueuePair, handler?: RpcHandler, options: TwoSidedRpcOptions = {}) {
    const { messageBytes = 256, depth = 16 } = options;
    this.#qp = qp;
    this.#bytes = messageBytes;
    this.#handler = handler;
    this.#memory = pd.register(device.alloc(messageBytes * (depth + 1)), { localWrite: true });
    this.#send = qp.prepare({ opcode: 'SEND', local: this.#memory, signaledEvery: SIGNALED_EVERY });
    this.#receive = qp.prepareRecv(this.#memory);
    for (let i = 1; i <= depth; i++) this.#receive.post(i * messageBytes, messageBytes, i);
  }

  /** Begins a call. One call at a time. */
  call(request: Uint8Array): void {
    this.#memory.bytes.set(request, 0);
    this.#replyAt = -1;
    this.#post(request.length);
  }

  /** Posts a SEND, and takes the completion of earlier ones now and then. */
  #post(length: number): void {
    const { sendCq, recvCq } = this.#qp;
    if (++this.#sent % SIGNALED_EVERY === 0 && sendCq !== recvCq) sendCq.poll(this.#sendWcs);
    this.#send.post(0, length, 0);
  }

  /** Makes progress: serves requests, takes the reply. Returns how many messages came. Throws when the connection is broken. */
  poll(): number {
    const wcs = this.#wcs;
    const { recvCq } = this.#qp;
    const n = recvCq.poll(wcs);
    let came = 0;
    for (let i = 0; i < n; i++) {
      if (wcs.status[i] !== 0)
        throw new Error(`the connection is broken: ${recvCq.cause(wcs.causeId[i])?.words ?? 'no cause given'}`);
      if (wcs.opcode[i] < WC_RECV) continue;
      came++;
      const at = wcs.id[i] * this.#bytes;
      if (this.#handler === undefined) {
        this.#replyAt = at;
        this.#replyLength = wcs.byteLen[i];
      } else {
        const { bytes } = this.#memory;
        const length = this.#handler(bytes.subarray(at, at + wcs.byteLen[i]), bytes.subarray(0, this.#bytes));
        this.#post(length);
      }
      this.#receive.post(at, this.#bytes, wcs.id[i]);
    }
    return came;
  }

  /** The reply of the last call, or undefined while it has not come. Valid until the next call. */
  get reply(): Uint8Array | undefined {
    return this.#replyAt < 0 ? undefined : this.#memory.bytes.subarray(this.#replyAt, this.#replyAt + this.#replyLength);
  }
}
