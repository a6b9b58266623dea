/**
 * An address handle: a peer for UD and DC, or a multicast group.
 */

import type { AddressHandle } from '../../address-handle.js';
import { VerbsError } from '../../errors.js';
import type { AddressVector } from '../../qp-state.js';
import type { ShmDevice } from './device.js';
import type { Peer } from './peer.js';
import { Target } from './target.js';

export class ShmAddressHandle implements AddressHandle {
  readonly av: AddressVector;
  readonly device: ShmDevice;
  /** Undefined for a multicast group. */
  readonly #peer: Peer | undefined;
  readonly #targets = new Map<number, readonly Target[]>();
  #closed = false;

  constructor(device: ShmDevice, av: AddressVector) {
    this.device = device;
    this.av = av;
    if (typeof av?.gid !== 'string')
      throw new VerbsError('VERBS_INVALID', "an address handle needs the peer's gid: pass address().av");
    if (av.gid.toLowerCase().startsWith('ff')) return;
    this.#peer = device.peers.of(av.gid);
    device.peers.retain(this.#peer);
  }

  /** The queue pairs that a request to `qpNum` goes to. */
  targets(qpNum: number): readonly Target[] {
    if (this.#closed) return [];
    if (!this.#peer) return this.device.multicast.members(this.av.gid);
    const known = this.#targets.get(qpNum);
    if (known) return known;
    const list = [new Target(this.#peer, qpNum)];
    this.#targets.set(qpNum, list);
    return list;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#targets.clear();
    if (this.#peer) this.device.peers.release(this.#peer);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
