/**
 * RPC by writing into rings: the client writes the request into the server's ring by itself, the server the reply into the client's. No receive request is
 * posted and no completion is taken; the server's CPU looks at memory and runs the handler.
 *
 * Needs a device with `directAccess`; elsewhere a Worker carries rings by WRITE_WITH_IMM.
 */

import type { Device, ProtectionDomain, QpAddress, RemoteRegion } from '../../verbs/index.js';
import { copyBytes } from '../payload.js';
import { INLINE_BYTES, S_BULK, S_LENGTH, S_PAYLOAD } from '../wire/slot.js';
import { RingRegion, type RingShape, type RingWriter } from './ring-region.js';
import type { RpcHandler } from './rpc-two-sided.js';

/** One side; whoever gives a handler is the server. */
export class RingRpc {
  readonly #device: Device;
  readonly #ring: RingRegion;
  readonly #shape: RingShape;
  readonly #handler: RpcHandler | undefined;
  readonly #scratch: Uint8Array;
  #writer: RingWriter | undefined;
  #reply: Uint8Array | undefined;

  constructor(device: Device, pd: ProtectionDomain, handler?: RpcHandler, shape: RingShape = { slots: 64, bulkBytes: 65_536 }) {
    this.#device = device;
    this.#shape = shape;
    this.#handler = handler;
    this.#scratch = new Uint8Array(shape.bulkBytes >> 2);
    this.#ring = new RingRegion(device, pd, shape);
  }

  /** What the other side needs. */
  remote(): RemoteRegion {
    return this.#ring.remote();
  }

  /** Maps the other side's ring. Both sides have the same shape. Throws VERBS_UNSUPPORTED, VERBS_PEER_LOST. */
  connect(peer: QpAddress, ring: RemoteRegion): void {
    this.#writer = RingRegion.attach(this.#device, peer, ring, this.#shape);
  }

  /** Begins a call. False when the server has not taken enough of the earlier ones. */
  call(request: Uint8Array): boolean {
    this.#reply = undefined;
    return this.#write(request, request.length);
  }

  #write(bytes: Uint8Array, length: number): boolean {
    const writer = this.#writer as RingWriter;
    const slot = length <= INLINE_BYTES ? writer.reserve() : writer.reserveBulk(length);
    if (slot < 0) return false;
    const at = length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : writer.bulkAt + writer.bulkOffset;
    copyBytes(bytes, 0, writer.u8, at, length);
    writer.i32[slot + S_LENGTH] = length;
    writer.i32[slot + S_BULK] = writer.bulkOffset;
    writer.publish(slot);
    return true;
  }

  /** Makes progress: serves one request or takes one reply. Returns 1 when something came. */
  poll(): number {
    const reader = this.#ring.reader;
    const slot = reader.peek();
    if (slot < 0) return 0;
    const length = reader.i32[slot + S_LENGTH];
    const at = length <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + reader.i32[slot + S_BULK];
    if (this.#handler === undefined) {
      this.#reply = reader.u8.slice(at, at + length);
    } else {
      const replyLength = this.#handler(reader.u8.subarray(at, at + length), this.#scratch);
      if (!this.#write(this.#scratch, replyLength)) return 0; // the client takes no replies: try again later
    }
    reader.release(length > INLINE_BYTES ? length : 0);
    return 1;
  }

  get reply(): Uint8Array | undefined {
    return this.#reply;
  }
}
