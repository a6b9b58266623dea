/**
 * The three packets that make and drop a dynamic connection. They have a DETH, whose Q_Key field is the DC key and whose source is the
 * initiator's (or target's) queue pair, and a short payload.
 *
 *     connect      to the target's number      token, first PSN, path MTU
 *     connectReply to the initiator's number   token, verdict, number of the context that serves the connection
 *     disconnect   to the context's number     token
 *
 * The token counts the connections of an initiator, so that late packets of an earlier one are known. A connect that is repeated gets
 * the same context; one with a newer token replaces the initiator's older context.
 */

import { DcOpcode } from './opcode.js';
import { encodeHeaders, get32, type Packet, put32 } from './packet.js';

/** What a target says to a connect. */
export const DcVerdict = { accepted: 0, wrongKey: 1, mtuMismatch: 2, tooMany: 3 } as const;

/** Fields of a DC message; which of them count depends on the opcode. */
export class DcMessage {
  opcode = 0;
  token = 0;
  psn = 0;
  mtu = 0;
  verdict = 0;
  context = 0;
}

/** Reads the payload of a DC packet. False when it is too short. */
export function decodeDc(p: Packet, b: Uint8Array, m: DcMessage): boolean {
  if (p.payloadLength < 12) return false;
  m.opcode = p.opcode;
  m.token = get32(b, p.payloadAt);
  if (p.opcode === DcOpcode.connect) {
    m.psn = get32(b, p.payloadAt + 4) & 0xffffff;
    m.mtu = get32(b, p.payloadAt + 8);
  } else if (p.opcode === DcOpcode.connectReply) {
    m.verdict = get32(b, p.payloadAt + 4);
    m.context = get32(b, p.payloadAt + 8);
  }
  return true;
}

/** Writes a DC packet; `p` has the destination, source and key. Returns its length. */
export function encodeDc(p: Packet, m: DcMessage, b: Uint8Array, at: number): number {
  p.opcode = m.opcode;
  p.psn = 0;
  p.payloadLength = 12;
  const payloadAt = encodeHeaders(p, b, at);
  put32(b, payloadAt, m.token);
  put32(b, payloadAt + 4, m.opcode === DcOpcode.connect ? m.psn : m.verdict);
  put32(b, payloadAt + 8, m.opcode === DcOpcode.connect ? m.mtu : m.context);
  return payloadAt + 12 - at;
}
