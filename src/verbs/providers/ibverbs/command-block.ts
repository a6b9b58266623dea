/**
 * The block of numbers between JavaScript and libibverbs: requests go in, and one call without arguments posts them and reaps a completion
 * queue. native/ibverbs/port.h draws it.
 *
 *     head 0..63 | arguments of slow calls 64..127 | commands: [kind, bytes, object, ., id, sges, inline, ...] [...] ...
 */

const COMMAND_BYTE = 512;
const COMMAND_BYTES = 65_536;
const ARGUMENT_WORD = 64;

// Words of the head.
const COMMANDS = 0;
export const QUEUE = 1;
export const FIRST = 2;
export const MOST = 3;
export const FILLED = 4;
export const ERRNO = 5;
const TAKEN = 6;
const OPERATIONS = 8;
const BYTES = 9;
const ERRORS = 10;

export const COMMAND_SEND = 1;
export const COMMAND_RECV = 2;
export const COMMAND_SRQ = 3;

// Words of a command.
export const KIND = 0;
const LENGTH = 1;
export const OBJECT = 2;
export const ID = 4;
export const SGES = 6;
export const INLINE = 7;
export const OPCODE = 8;
export const FLAGS = 9;
export const REMOTE = 10;
export const KEY = 12;
export const IMMEDIATE = 13;
export const SWAP = 14;
export const COMPARE = 16;
export const HANDLE = 18;
export const PEER = 19;
export const PEER_KEY = 20;
export const SEND_WORDS = 22;
export const RECV_WORDS = 8;
export const SGE_WORDS = 4;

/** Bits of FLAGS: libibverbs'. */
export const FENCE = 1;
export const SIGNALED = 2;
export const SOLICITED = 4;
export const INLINED = 8;

export class CommandBlock {
  readonly buffer = new ArrayBuffer(COMMAND_BYTE + COMMAND_BYTES);
  readonly head = new Int32Array(this.buffer, 0, ARGUMENT_WORD);
  /** What createQp, modify, createAh and the connections take. */
  readonly arguments = new Int32Array(this.buffer, 4 * ARGUMENT_WORD, ARGUMENT_WORD);
  readonly argumentBytes = new Uint8Array(this.buffer, 4 * ARGUMENT_WORD, 4 * ARGUMENT_WORD);
  readonly words = new Int32Array(this.buffer, COMMAND_BYTE, COMMAND_BYTES >> 2);
  readonly doubles = new Float64Array(this.buffer, COMMAND_BYTE, COMMAND_BYTES >> 3);
  readonly bytes = new Uint8Array(this.buffer, COMMAND_BYTE, COMMAND_BYTES);
  /** Words of the commands that wait for `flush`. */
  private used = 0;
  private readonly totals = new Float64Array(this.buffer, 0, ARGUMENT_WORD >> 1);
  /** Set once the port is open. */
  run: () => void = () => {};

  /** Whether this many more bytes of commands fit. */
  hasRoom(bytes: number): boolean {
    return 4 * this.used + bytes <= COMMAND_BYTES;
  }

  /** First word of the next command. */
  get next(): number {
    return this.used;
  }

  /** The command that starts at `next` has this many words; rounds up to 8 bytes. */
  close(wordCount: number): void {
    const rounded = (wordCount + 1) & ~1;
    this.words[this.used + LENGTH] = rounded * 4;
    this.used += rounded;
  }

  /** Posts what was written. Returns 0, or the errno of the first refused request; `taken` are those before it. */
  flush(): number {
    const { head } = this;
    head[COMMANDS] = this.used * 4;
    this.used = 0;
    head[ERRNO] = 0;
    this.run();
    return head[ERRNO];
  }

  /** Posts the one command that stands at the start of the block, of this many bytes. */
  flushOne(bytes: number): number {
    const { head } = this;
    this.words[LENGTH] = bytes;
    head[COMMANDS] = bytes;
    head[ERRNO] = 0;
    this.run();
    return head[ERRNO];
  }

  /** Forgets what was written and not flushed. */
  discard(): void {
    this.used = 0;
  }

  get taken(): number {
    return this.head[TAKEN];
  }

  get operations(): number {
    return this.totals[OPERATIONS];
  }

  get bytesPosted(): number {
    return this.totals[BYTES];
  }

  get errors(): number {
    return this.totals[ERRORS];
  }
}
