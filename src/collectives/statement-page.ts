/**
 * Where ranks of one host tell each other what they called when their calls did not fit together: a file without a name each, which the others open through the process
 * that holds it. Written and read only after a mismatch, and without the event loop, because synchronous calls need it too.
 *
 * Every rank of a communicator has the same mismatches in the same order, so their number names the call.
 */

import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Statement } from './call-site.js';
import { type Exchange, exchangeAll, type Patience, pause } from './exchange.js';

/** O_TMPFILE, which node:fs does not name. */
const UNNAMED = 0o20000000 | constants.O_DIRECTORY;
const PAGE_BYTES = 64 << 10;
/** Statements kept: a reader may be some mismatches behind. */
const KEPT = 8;
/** How long a rank waits for another's statement, ms. */
const WAIT_MS = 500;
const NAP_MS = 1;
const napWords = new Int32Array(new SharedArrayBuffer(4));

interface Said {
  readonly number: number;
  readonly statement: Statement;
}

export class StatementPage {
  readonly #fd: number;
  readonly #paths: readonly (string | null)[];
  readonly #own: Said[] = [];
  #number = 0;

  private constructor(fd: number, paths: readonly (string | null)[]) {
    this.#fd = fd;
    this.#paths = paths;
  }

  /** All ranks call it. */
  static async open(rank: number, size: number, exchange: Exchange, key: string, patience: Patience): Promise<StatementPage> {
    const fd = openUnnamed();
    try {
      const own = fd < 0 ? null : `/proc/${process.pid}/fd/${fd}`;
      return new StatementPage(fd, await exchangeAll(exchange, `${key}/statements`, rank, size, own, patience));
    } catch (error) {
      if (fd >= 0) closeSync(fd);
      throw error;
    }
  }

  /** Tells the others of a mismatch; returns its number. */
  tell(statement: Statement): number {
    const number = ++this.#number;
    this.#own.push({ number, statement });
    if (this.#own.length > KEPT) this.#own.shift();
    if (this.#fd >= 0) writeSync(this.#fd, `${JSON.stringify(this.#own)}\n`, 0);
    return number;
  }

  /** What a rank told of a mismatch. Undefined: nothing in time. */
  async hear(rank: number, number: number): Promise<Statement | undefined> {
    for (const deadline = performance.now() + WAIT_MS; ; ) {
      const found = this.#look(rank, number);
      if (found !== undefined || performance.now() > deadline) return found;
      await pause();
    }
  }

  /** The same without the event loop. */
  hearSync(rank: number, number: number): Statement | undefined {
    for (const deadline = performance.now() + WAIT_MS; ; ) {
      const found = this.#look(rank, number);
      if (found !== undefined || performance.now() > deadline) return found;
      Atomics.wait(napWords, 0, 0, NAP_MS);
    }
  }

  #look(rank: number, number: number): Statement | undefined {
    const path = this.#paths[rank];
    return path === null ? undefined : read(path).find((said) => said.number === number)?.statement;
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
  }
}

function openUnnamed(): number {
  for (const directory of ['/dev/shm', tmpdir()]) {
    try {
      return openSync(directory, UNNAMED | constants.O_RDWR, 0o600);
    } catch {
      // The next one, or none: errors then say what the other rank called, but not where.
    }
  }
  return -1;
}

/** What a page says; nothing while it is being written. */
function read(path: string): readonly Said[] {
  let fd = -1;
  try {
    fd = openSync(path, constants.O_RDONLY);
    const bytes = Buffer.alloc(PAGE_BYTES);
    const length = readSync(fd, bytes, 0, PAGE_BYTES, 0);
    return JSON.parse(bytes.toString('utf8', 0, length).split('\n', 1)[0]) as Said[];
  } catch {
    return [];
  } finally {
    if (fd >= 0) closeSync(fd);
  }
}
