/**
 * What a slot of a ring carries: the byte table of everything two workers say to each other once they are connected.
 *
 * A slot is 64 bytes, sixteen little-endian 32-bit words. Version 2 of the format; the version travels in the hello (hello.ts).
 *
 * ```
 *   word   0            1                          2         3          4        5            6 .. 15
 *        +------------+--------------------------+---------+----------+--------+------------+---------------------+
 *        | sequence   | kind | flags<<8 | ctx<<16 | tag low | tag high | length | bulk offset| up to 40 B payload  |
 *        +------------+--------------------------+---------+----------+--------+------------+---------------------+
 * ```
 * `sequence` is the position in the ring + 1 and is written last: it publishes the slot. A payload of more than 40 bytes lies in the bulk part of the
 * ring at `bulk offset`. Two rings go each way: `messages` holds new tag messages and may stand still while the receiver has no room for unexpected
 * data; `transfers` holds everything else and is always drained, so what was begun can end.
 *
 * | ring | kind | words 2, 3 | word 4 | word 5 | payload |
 * |---|---|---|---|---|---|
 * | messages | EAGER | tag | payload bytes | bulk offset | the message |
 * | messages | RTS, ready to send | tag | bytes of paths | bulk offset | 0 address f64, 8 length f64, 16 rkey u32, 20 send request u32 |
 * | | | | | | with flag PATHS, in bulk for each further path: address f64, rkey f64 |
 * | transfers | RTS | tag | - | - | the same: an answer to PULL |
 * | transfers | RTR, ready to receive | send request, receive request | flags (put or data) | rkey | 0 address f64 |
 * | transfers | ATS, acknowledge to sender | send request, status | - | - | - |
 * | transfers | ATP, acknowledge after put | receive request, status | - | - | - |
 * | transfers | DATA, a fragment | receive request, - | payload bytes | bulk offset | 0 offset f64 when inline; in bulk the first 8 bytes are the offset |
 * | transfers | PULL, send what matches | tag | mask low | mask high | 0 receive request u32 |
 * | transfers | UNPULL, keep it | send request, - | - | - | - |
 * | transfers | AM | handler id, header bytes | payload bytes | bulk offset | header, then data |
 * | transfers | AM_RTS | handler id, header bytes | - | bulk offset of the header | as RTS (24 B), then a header of up to 16 B |
 * | transfers | STREAM | - | payload bytes | bulk offset | bytes of the stream |
 * | transfers | STREAM_CREDIT | bytes taken since the last one, - | - | - | - |
 * | transfers | CREDIT | there is room in a ring again: wakes a sender | - | - | - |
 * | transfers | PING, PONG | keepalive | - | - | - |
 * | transfers | HELP, carry from the back | send request, board entry | fragment bytes | rkey | 0 address f64, 8 fragments u32 |
 * | transfers | HELPED, no more of it | board entry, fragments moved | status | - | - |
 * | transfers | ATOMIC, ATOMIC_DONE | see rma/emulated-atomics.ts | | | |
 * | transfers | CLOSE, CLOSED | the sender of CLOSE sends no more; CLOSED answers it | - | - | - |
 */

export const SLOT_WORDS = 16;
export const SLOT_BYTES = 64;
export const S_SEQUENCE = 0;
export const S_KIND = 1;
export const S_TAG_LO = 2;
export const S_TAG_HI = 3;
export const S_LENGTH = 4;
export const S_BULK = 5;
export const S_PAYLOAD = 6;
export const INLINE_BYTES = 40;

export const EAGER = 1;
export const RTS = 2;
export const RTR = 3;
export const ATS = 4;
export const ATP = 5;
export const DATA = 6;
export const PULL = 7;
export const UNPULL = 8;
export const AM = 9;
export const AM_RTS = 10;
export const STREAM = 11;
/** Flag of STREAM: the writer has ended. */
export const STREAM_END: number = 1 << 8;
export const STREAM_CREDIT = 12;
export const CREDIT = 13;
export const PING = 14;
export const PONG = 15;
export const CLOSE = 16;
export const CLOSED = 17;
export const HELP = 18;
export const HELPED = 19;
export const ATOMIC = 20;
export const ATOMIC_DONE = 21;

/** Flags of RTS: the sender's memory may be read. */
export const RTS_GET = 1;
/** The sender would rather write by itself. */
export const RTS_PUT = 2;
/** The transfer is to be cut into fragments over all lanes. */
export const RTS_PIPELINE = 4;
/** The bulk holds where the memory is for the further paths of the endpoint. */
export const RTS_PATHS = 8;
/** AM_RTS: how many further paths, in the bits from here on. */
export const RTS_PATHS_SHIFT = 4;
/** The flags that say how the data may move. */
export const RTS_SCHEME = 7;
/** RTR: write to the address given. Without it the data comes as DATA fragments. */
export const RTR_PUT = 1;

/** Offset of the data in a DATA fragment that lies in bulk. */
export const DATA_HEAD_BYTES = 8;
/** Bytes of the description of memory in RTS and AM_RTS. */
export const RTS_BYTES = 24;
