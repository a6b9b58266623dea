/**
 * What UCX carries for us: every active message begins with eight words.
 *
 *     0  kind | opcode << 8 | flags << 16      1  queue pair there      2  immediate, or number of the request      3  key, or status
 *     4  remote address, low and high          6  length                7  queue pair here
 */

export const KIND_DATA = 1;
export const KIND_READ = 2;
export const KIND_ATOMIC = 3;
/** A request is over: its status. */
export const KIND_ACK = 4;
/** What a READ or an atomic brings back. */
export const KIND_REPLY = 5;
/** Connection management: the payload is JSON. */
export const KIND_CM = 6;

export const FLAG_SOLICITED = 1;
/** The sender waits for an ACK. */
export const FLAG_ACK = 2;

export const W_KIND = 0;
export const W_QP = 1;
export const W_IMM = 2;
export const W_KEY = 3;
export const W_ADDR_LO = 4;
export const W_ADDR_HI = 5;
export const W_LENGTH = 6;
export const W_SOURCE = 7;

const TWO_32 = 2 ** 32;

export function addressOfWords(words: Int32Array, at: number): number {
  return (words[at + W_ADDR_HI] >>> 0) * TWO_32 + (words[at + W_ADDR_LO] >>> 0);
}

export const highWord = (address: number): number => Math.floor(address / TWO_32);
