/** A program of this folder on several ranks of this machine. Rank 0 reads lines, where it wants any, and answers with lines of JSON. */

import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { LOCAL_JOB, startJob } from '../../../launch/launcher/job.js';

export interface RanksOptions {
  readonly ranks: number;
  /** Passed to the program as JSON. */
  readonly argument: unknown;
  readonly signal: AbortSignal;
  /** A line for whoever waits. */
  progress(line: string): void;
}

export class RankProgram<T> {
  readonly #input = new PassThrough();
  readonly #answers: T[] = [];
  readonly #ended: Promise<void>;
  #isOver = false;
  #wake: () => void = () => {};

  constructor(program: URL, { ranks, argument, signal, progress }: RanksOptions) {
    const complaints: { readonly rank: number; readonly line: string }[] = [];
    const job = startJob({
      ...LOCAL_JOB,
      size: ranks,
      script: fileURLToPath(program),
      args: [JSON.stringify(argument)],
      cwd: process.cwd(),
      env: process.env,
      graceMs: 1000,
      stdin: this.#input,
      takeLine: (rank, stream, line) => {
        if (stream === 'stderr') complaints.push({ rank, line });
        else if (rank === 0 && !line.startsWith('{')) progress(line);
        else if (rank === 0) {
          this.#answers.push(JSON.parse(line) as T);
          this.#wake();
        }
      },
      tell: () => {}, // the result says it
    });
    const stop = () => job.signal('SIGTERM', 143);
    signal.addEventListener('abort', stop, { once: true });
    this.#ended = job.result.then(({ exitCode, failure }) => {
      signal.removeEventListener('abort', stop);
      this.#isOver = true;
      this.#wake();
      signal.throwIfAborted();
      if (exitCode === 0) return;
      const said = complaints.filter(({ rank }) => failure === undefined || rank === failure.rank).map(({ line }) => `  ${line}`);
      throw new Error([failure?.reason ?? `the ranks ended with ${exitCode}`, ...said.slice(-40)].join('\n'));
    });
    this.#ended.catch(() => {}); // told to whoever waits for an answer or the end
  }

  /** The next line of JSON. @throws Error with the last lines where a rank fails. */
  async answer(): Promise<T> {
    while (this.#answers.length === 0) {
      if (this.#isOver) {
        await this.#ended;
        throw new Error('the ranks ended without an answer');
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#answers.shift() as T;
  }

  /** Sends a line and waits for the answer. */
  ask(line: string): Promise<T> {
    this.#input.write(`${line}\n`);
    return this.answer();
  }

  /** Ends the input, and waits for the ranks. @throws Error as `answer`. */
  close(): Promise<void> {
    this.#input.end();
    return this.#ended;
  }
}
