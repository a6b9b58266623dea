/**
 * What travels in UCX's active messages: every one begins with five words.
 *
 * | word | 0 | 1 | 2, 3 | 4 |
 * |---|---|---|---|---|
 * | TAG | kind, 1 << 8: counted, context << 16 | endpoint there | tag, low and high | sequence number |
 * | MESSAGE | kind | endpoint there | handler, bytes of the user's header (which follows) | sequence number |
 * | STREAM | kind, 1 << 8: the end | endpoint there | - | sequence number |
 * | CREDIT | kind | endpoint there | bytes of the stream that were read | sequence number |
 * | ROOM | kind | endpoint there | bytes of counted messages that were taken | sequence number |
 * | HELLO, REFUSED | kind | - | - ; who it is, as JSON | - |
 * | WELCOME | kind | endpoint there | - ; who it is, as JSON | sequence number |
 * | SHARE | kind | endpoint there | number of memory ; its key | sequence number |
 * | OFFER | kind, context << 16 | endpoint there | tag, low and high ; memory, request, offset (two words), length | sequence number |
 * | FETCHED | kind | endpoint there | request | sequence number |
 * | UNSHARE | kind | endpoint there | number of memory | sequence number |
 * | CLOSE, CLOSED, PING, PONG | kind | endpoint there | - | sequence number |
 * | ECHO | kind | - | - | - |
 *
 * UCX does not promise the order of active messages, MPI's matching needs it: so all of an endpoint are numbered.
 *
 * Tagged messages that UCX carries to the receiver unasked are counted: beyond the window they only announce themselves, so their bytes stay at the sender.
 */

export const TAG = 1;
export const MESSAGE = 2;
export const STREAM = 3;
export const CREDIT = 4;
export const HELLO = 5;
export const REFUSED = 6;
export const WELCOME = 7;
export const CLOSE = 8;
export const CLOSED = 9;
export const PING = 10;
export const PONG = 11;
export const ROOM = 12;
export const SHARE = 13;
export const OFFER = 14;
export const FETCHED = 15;
export const UNSHARE = 16;
/** A worker's word to itself (hearing.ts). */
export const ECHO = 17;

export const STREAM_END: number = 1 << 8;
/** Flag of a tagged message that takes part of the window. */
export const COUNTED: number = 1 << 8;
/** What a message takes of the window beside its bytes. */
export const MESSAGE_COST = 64;

export const W_KIND = 0;
export const W_ENDPOINT = 1;
export const W_LO = 2;
export const W_HI = 3;
export const W_SEQUENCE = 4;
