/** A send request made once and posted without an object: what is fixed stands ready, and a post writes one command and makes one call. */

import { VerbsError } from '../../errors.js';
import { opcodeOf } from '../../opcode.js';
import { checkPrepared, type PreparedSend, type PrepareSpec, rejectRange } from '../../work-request.js';
import type { IbverbsAddressHandle } from './address-handle.js';
import {
  COMMAND_SEND,
  COMPARE,
  type CommandBlock,
  FENCE,
  FLAGS,
  HANDLE,
  ID,
  IMMEDIATE,
  INLINE,
  INLINED,
  KEY,
  KIND,
  OBJECT,
  OPCODE,
  PEER,
  PEER_KEY,
  REMOTE,
  SEND_WORDS,
  SGE_WORDS,
  SGES,
  SIGNALED,
  SOLICITED,
  SWAP,
} from './command-block.js';
import type { IbverbsQueuePair } from './queue-pair.js';

export class IbverbsPreparedSend implements PreparedSend {
  imm = 0;
  addLo = 0;
  addHi = 0;
  compareLo = 0;
  compareHi = 0;
  swapLo = 0;
  swapHi = 0;
  private readonly qp: IbverbsQueuePair;
  private readonly block: CommandBlock;
  private readonly words: Int32Array;
  private readonly doubles: Float64Array;
  private readonly object: number;
  private readonly opcode: number;
  private readonly flags: number;
  private readonly every: number;
  private readonly isAtomic: boolean;
  private readonly isAdd: boolean;
  private readonly inlineLimit: number;
  private readonly datagramLimit: number;
  private readonly localAddr: number;
  private readonly localLength: number;
  private readonly lkey: number;
  private readonly remoteAddr: number;
  private readonly rkey: number;
  private readonly ah: IbverbsAddressHandle | undefined;
  private readonly peer: number;
  private readonly peerKey: number;
  private sinceSignal = 0;

  constructor(qp: IbverbsQueuePair, block: CommandBlock, spec: PrepareSpec) {
    this.every = checkPrepared(qp, spec);
    this.isAtomic = spec.opcode.startsWith('ATOMIC_');
    this.isAdd = spec.opcode === 'ATOMIC_FETCH_AND_ADD';
    this.qp = qp;
    this.block = block;
    this.words = block.words;
    this.doubles = block.doubles;
    this.object = qp.object;
    this.opcode = opcodeOf(spec.opcode);
    this.flags = (spec.fence ? FENCE : 0) | (spec.solicited ? SOLICITED : 0) | (spec.inline ? INLINED : 0);
    this.inlineLimit = spec.inline ? qp.maxInline : Number.POSITIVE_INFINITY;
    this.datagramLimit = qp.type === 'UD' ? qp.device.capabilities.mtu : Number.POSITIVE_INFINITY;
    this.localAddr = spec.local.addr;
    this.localLength = spec.local.length;
    this.lkey = spec.local.lkey;
    this.remoteAddr = spec.remote?.addr ?? 0;
    this.rkey = spec.remote?.rkey ?? 0;
    this.ah = spec.ah as IbverbsAddressHandle | undefined;
    this.peer = spec.remoteQpn ?? 0;
    this.peerKey = (qp.type === 'DCI' ? spec.dcKey : spec.remoteQkey) ?? 0;
  }

  post(offset: number, length: number, id: number, remoteOffset = offset): void {
    if (!(offset >= 0 && length >= 0 && offset + length <= this.localLength)) rejectRange(offset, length, this.localLength);
    if (this.isAtomic && length !== 8) this.notEight(length);
    if (length > this.inlineLimit || length > this.datagramLimit) this.tooLong(length);
    this.qp.assertSends(0);
    const { words: w, doubles } = this;
    let { flags } = this;
    if (this.every > 0 && ++this.sinceSignal >= this.every) {
      this.sinceSignal = 0;
      flags |= SIGNALED;
    }
    // Nothing waits in the block between two calls, so the command is the first.
    w[KIND] = COMMAND_SEND;
    w[OBJECT] = this.object;
    doubles[ID >> 1] = id;
    w[SGES] = 1;
    w[INLINE] = -1;
    w[OPCODE] = this.opcode;
    w[FLAGS] = flags;
    doubles[REMOTE >> 1] = this.remoteAddr + remoteOffset;
    w[KEY] = this.rkey;
    w[IMMEDIATE] = this.imm;
    if (this.isAtomic) {
      w[SWAP] = this.isAdd ? this.addLo : this.swapLo;
      w[SWAP + 1] = this.isAdd ? this.addHi : this.swapHi;
      w[COMPARE] = this.compareLo;
      w[COMPARE + 1] = this.compareHi;
    }
    if (this.ah !== undefined) {
      if (this.ah.isClosed) throw new VerbsError('VERBS_INVALID', 'the address handle is closed: prepare anew with another');
      w[HANDLE] = this.ah.object;
      w[PEER] = this.peer;
      w[PEER_KEY] = this.peerKey;
    }
    doubles[SEND_WORDS >> 1] = this.localAddr + offset;
    w[SEND_WORDS + 2] = length;
    w[SEND_WORDS + 3] = this.lkey;
    const errno = this.block.flushOne(4 * (SEND_WORDS + SGE_WORDS));
    if (errno !== 0) this.qp.refused(errno, 0);
  }

  private notEight(length: number): never {
    throw new VerbsError('VERBS_INVALID', `an atomic returns 8 bytes: got a length of ${length}`);
  }

  private tooLong(length: number): never {
    throw new VerbsError(
      'VERBS_INVALID',
      length > this.datagramLimit
        ? `a datagram holds one MTU, ${this.datagramLimit} bytes: got ${length}`
        : `${length} bytes inline, but the queue pair was made with maxInline ${this.inlineLimit}`,
    );
  }
}
