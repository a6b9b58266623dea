/**
 * The BTH opcodes, and what each of them says about its packet.
 *
 * An opcode byte is three bits of transport service and five bits of operation:
 *
 *      7   6   5 | 4   3   2   1   0
 *     service    | operation             service: 0 RC, 1 UC, 3 UD, 4 congestion notification, 6 private (DC)
 *
 * Everything a state machine asks of an opcode (which headers follow, is it the first or the last packet of a message,
 * is it a request or an answer) is one bit in `OPCODE_FLAGS`, so the hot path does one table load and tests bits.
 */

/** Transport services, the upper three bits of an opcode, already shifted into place. */
export const Service = { rc: 0x00, uc: 0x20, ud: 0x60, cnp: 0x80, dc: 0xc0 } as const;

/** The five operation bits. RC has all of them; UC and UD only those the specification gives them. */
export const Op = {
  sendFirst: 0,
  sendMiddle: 1,
  sendLast: 2,
  sendLastImm: 3,
  sendOnly: 4,
  sendOnlyImm: 5,
  writeFirst: 6,
  writeMiddle: 7,
  writeLast: 8,
  writeLastImm: 9,
  writeOnly: 10,
  writeOnlyImm: 11,
  readRequest: 12,
  readResponseFirst: 13,
  readResponseMiddle: 14,
  readResponseLast: 15,
  readResponseOnly: 16,
  acknowledge: 17,
  atomicAcknowledge: 18,
  compareSwap: 19,
  fetchAdd: 20,
  sendLastInvalidate: 22,
  sendOnlyInvalidate: 23,
} as const;

/** Congestion notification packet: service 4, operation 1. */
export const OPCODE_CNP = 0x81;

/**
 * Opcodes of the dynamically connected service. The specification leaves the services from 6 on to the maker, and no maker
 * has published his, so these three are Verbena's own: they only make and drop connections; the data runs as plain RC packets.
 */
export const DcOpcode = { connect: 0xc0, connectReply: 0xc1, disconnect: 0xc2 } as const;

/** What an opcode says. `has*`: that extension header follows the BTH. */
export const Flag = {
  known: 1 << 0,
  hasReth: 1 << 1,
  hasAeth: 1 << 2,
  hasAtomic: 1 << 3,
  hasAtomicAck: 1 << 4,
  hasImm: 1 << 5,
  hasDeth: 1 << 6,
  hasIeth: 1 << 7,
  hasPayload: 1 << 8,
  first: 1 << 9,
  last: 1 << 10,
  send: 1 << 11,
  write: 1 << 12,
  request: 1 << 13,
  response: 1 << 14,
  read: 1 << 15,
  atomic: 1 << 16,
  /** The packet ends a message that consumes a receive request (SEND, WRITE with immediate). */
  consumesReceive: 1 << 17,
} as const;

const F = Flag;
const OPERATIONS: readonly (readonly [number, number])[] = [
  [Op.sendFirst, F.send | F.request | F.first | F.hasPayload],
  [Op.sendMiddle, F.send | F.request | F.hasPayload],
  [Op.sendLast, F.send | F.request | F.last | F.hasPayload | F.consumesReceive],
  [Op.sendLastImm, F.send | F.request | F.last | F.hasPayload | F.hasImm | F.consumesReceive],
  [Op.sendOnly, F.send | F.request | F.first | F.last | F.hasPayload | F.consumesReceive],
  [Op.sendOnlyImm, F.send | F.request | F.first | F.last | F.hasPayload | F.hasImm | F.consumesReceive],
  [Op.writeFirst, F.write | F.request | F.first | F.hasReth | F.hasPayload],
  [Op.writeMiddle, F.write | F.request | F.hasPayload],
  [Op.writeLast, F.write | F.request | F.last | F.hasPayload],
  [Op.writeLastImm, F.write | F.request | F.last | F.hasImm | F.hasPayload | F.consumesReceive],
  [Op.writeOnly, F.write | F.request | F.first | F.last | F.hasReth | F.hasPayload],
  [Op.writeOnlyImm, F.write | F.request | F.first | F.last | F.hasReth | F.hasImm | F.hasPayload | F.consumesReceive],
  [Op.readRequest, F.read | F.request | F.first | F.last | F.hasReth],
  [Op.readResponseFirst, F.read | F.response | F.first | F.hasAeth | F.hasPayload],
  [Op.readResponseMiddle, F.read | F.response | F.hasPayload],
  [Op.readResponseLast, F.read | F.response | F.last | F.hasAeth | F.hasPayload],
  [Op.readResponseOnly, F.read | F.response | F.first | F.last | F.hasAeth | F.hasPayload],
  [Op.acknowledge, F.response | F.hasAeth],
  [Op.atomicAcknowledge, F.atomic | F.response | F.hasAeth | F.hasAtomicAck],
  [Op.compareSwap, F.atomic | F.request | F.first | F.last | F.hasAtomic],
  [Op.fetchAdd, F.atomic | F.request | F.first | F.last | F.hasAtomic],
  [Op.sendLastInvalidate, F.send | F.request | F.last | F.hasIeth | F.hasPayload | F.consumesReceive],
  [Op.sendOnlyInvalidate, F.send | F.request | F.first | F.last | F.hasIeth | F.hasPayload | F.consumesReceive],
];

/** Flags by opcode byte; 0 means that no such opcode exists. */
export const OPCODE_FLAGS: Int32Array = buildFlags();

function buildFlags(): Int32Array {
  const table = new Int32Array(256);
  for (const [op, flags] of OPERATIONS) {
    table[Service.rc | op] = flags | F.known;
    if (op <= Op.writeOnlyImm) table[Service.uc | op] = flags | F.known;
    if (op === Op.sendOnly || op === Op.sendOnlyImm) table[Service.ud | op] = flags | F.hasDeth | F.known;
  }
  table[OPCODE_CNP] = F.known | F.hasPayload;
  for (const opcode of Object.values(DcOpcode)) table[opcode] = F.known | F.hasPayload | F.hasDeth;
  return table;
}

/** Length of BTH and extension headers by opcode byte, in bytes; 0 for an unknown opcode. */
export const HEADER_LENGTH: Uint8Array = buildLengths();

function buildLengths(): Uint8Array {
  const table = new Uint8Array(256);
  for (let opcode = 0; opcode < 256; opcode++) {
    const flags = OPCODE_FLAGS[opcode];
    if (flags === 0) continue;
    let length = 12;
    if (flags & F.hasDeth) length += 8;
    if (flags & F.hasReth) length += 16;
    if (flags & F.hasAtomic) length += 28;
    if (flags & F.hasAeth) length += 4;
    if (flags & F.hasAtomicAck) length += 8;
    if (flags & F.hasImm) length += 4;
    if (flags & F.hasIeth) length += 4;
    table[opcode] = length;
  }
  return table;
}

const SERVICE_NAMES: readonly string[] = ['RC', 'UC', 'RD', 'UD', 'CNP', 'XRC', 'DC', 'private'];

/** A name for logs and traces: `RC sendOnly`, `UD sendOnlyImm`, `CNP`. */
export function opcodeName(opcode: number): string {
  if (opcode === OPCODE_CNP) return 'CNP';
  for (const [name, value] of Object.entries(DcOpcode)) if (value === opcode) return `DC ${name}`;
  const operation = Object.entries(Op).find(([, value]) => value === (opcode & 31));
  return `${SERVICE_NAMES[opcode >> 5]} ${operation?.[0] ?? opcode & 31}`;
}
