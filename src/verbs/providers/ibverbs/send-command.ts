/** A readable send request as a command: its twin in port.h reads it. */

import { opcodeOf } from '../../opcode.js';
import type { SendWorkRequest } from '../../work-request.js';
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

/** Writes a request behind those that wait in the block. */
export function writeSend(block: CommandBlock, qp: IbverbsQueuePair, wr: SendWorkRequest): void {
  const { words: w, doubles, next: at } = block;
  const sgl = wr.sgl ?? [];
  w[at + KIND] = COMMAND_SEND;
  w[at + OBJECT] = qp.object;
  doubles[(at + ID) >> 1] = wr.id ?? 0;
  w[at + SGES] = sgl.length;
  w[at + INLINE] = wr.inlineData ? wr.inlineData.length : -1;
  w[at + OPCODE] = opcodeOf(wr.opcode);
  w[at + FLAGS] =
    (wr.signaled === false && !qp.sqSigAll ? 0 : SIGNALED) |
    (wr.fence ? FENCE : 0) |
    (wr.solicited ? SOLICITED : 0) |
    (wr.inline ? INLINED : 0);
  doubles[(at + REMOTE) >> 1] = wr.remoteAddr ?? 0;
  w[at + KEY] = wr.rkey ?? 0;
  w[at + IMMEDIATE] = wr.imm ?? 0;
  const swap = BigInt.asUintN(64, (wr.opcode === 'ATOMIC_FETCH_AND_ADD' ? wr.add : wr.swap) ?? 0n);
  const compare = BigInt.asUintN(64, wr.compare ?? 0n);
  w[at + SWAP] = Number(swap & 0xffffffffn);
  w[at + SWAP + 1] = Number(swap >> 32n);
  w[at + COMPARE] = Number(compare & 0xffffffffn);
  w[at + COMPARE + 1] = Number(compare >> 32n);
  w[at + HANDLE] = (wr.ah as IbverbsAddressHandle | undefined)?.object ?? 0;
  w[at + PEER] = wr.remoteQpn ?? 0;
  w[at + PEER_KEY] = (qp.type === 'DCI' ? wr.dcKey : wr.remoteQkey) ?? 0;
  let to = at + SEND_WORDS;
  for (const { addr, length, lkey } of sgl) {
    doubles[to >> 1] = addr;
    w[to + 2] = length;
    w[to + 3] = lkey;
    to += SGE_WORDS;
  }
  if (wr.inlineData) {
    block.bytes.set(wr.inlineData, to * 4);
    to += (wr.inlineData.length + 3) >> 2;
  }
  block.close(to - at);
}
