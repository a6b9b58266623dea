/** Cuts the output of a process into lines, without waiting for ever for the end of one: a line of over 64 KiB comes in pieces. */

import { StringDecoder } from 'node:string_decoder';

const MAX_LINE = 64 * 1024;

export class LineSplitter {
  readonly #take: (line: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #held = '';

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    const lines = (this.#held + this.#decoder.write(chunk)).split('\n');
    this.#held = lines.pop() as string;
    for (const line of lines) this.#take(line.endsWith('\r') ? line.slice(0, -1) : line);
    for (; this.#held.length > MAX_LINE; this.#held = this.#held.slice(MAX_LINE)) this.#take(this.#held.slice(0, MAX_LINE));
  }

  /** The stream has ended: what is left is a line too. */
  end(): void {
    const rest = this.#held + this.#decoder.end();
    this.#held = '';
    if (rest !== '') this.#take(rest);
  }
}
