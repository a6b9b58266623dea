/**
 * A Node program in a process of its own, pinned to CPUs, that answers requests one at a time over the IPC channel.
 *
 * The parent asks (`request`), the child's handlers answer (`serve`). When the parent goes away the child ends by itself; a child that is
 * busy in a loop notices at its next return to the event loop, so loops bound their waiting (see Patience).
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The full path of a program on PATH, or undefined. */
export function findProgram(name: string, path = process.env['PATH'] ?? ''): string | undefined {
  for (const dir of path.split(delimiter)) {
    const file = join(dir, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // not here
    }
  }
  return undefined;
}

/** The words that run a command on the given CPUs: `taskset -c 0,1 command`, or the command alone where there is no taskset. */
export function pinned(cpus: readonly number[], command: readonly string[]): string[] {
  const list = [...new Set(cpus)].join(',');
  return findProgram('taskset') ? ['taskset', '-c', list, ...command] : [...command];
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { message: string; code?: string };
}

export interface ChildProgramOptions {
  readonly cpus: readonly number[];
  readonly signal?: AbortSignal;
  readonly args?: readonly string[];
}

export class ChildProgram {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  readonly #ended: Promise<void>;
  #stderr = '';
  #nextId = 1;
  #closed = false;

  constructor(program: URL, options: ChildProgramOptions) {
    const [command, ...args] = pinned(options.cpus, [process.execPath, fileURLToPath(program), ...(options.args ?? [])]);
    this.#process = spawn(command, args, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      signal: options.signal,
      killSignal: 'SIGKILL',
    });
    this.#process.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-4000);
    });
    this.#process.on('message', (message) => this.#settle(message as Reply));
    this.#ended = new Promise((resolve) => {
      const end = (why: string) => {
        this.#fail(why);
        resolve();
      };
      this.#process.on('close', (code, signal) => end(`ended with ${signal ?? `status ${code}`}`));
      this.#process.on('error', (error) => end(error.message));
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  #settle(reply: Reply): void {
    const waiter = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (reply.error) waiter?.reject(Object.assign(new Error(reply.error.message), { code: reply.error.code }));
    else waiter?.resolve(reply.value);
  }

  #fail(why: string): void {
    this.#closed = true;
    const tail = this.#stderr.trim();
    for (const { reject } of this.#waiting.values()) reject(new Error(`a measuring process ${why}${tail ? `: ${tail}` : ''}`));
    this.#waiting.clear();
  }

  /** Calls a handler of the child. Rejects with the child's error, or when it ends. */
  request<T>(name: string, argument?: unknown): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) {
        reject(new Error(`the measuring process is gone: ${this.#stderr.trim()}`));
        return;
      }
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#process.send({ id, name, argument }, (error) => {
        if (error) this.#settle({ id, error });
      });
    });
  }

  /** Ends the process and waits until it is gone. */
  async close(): Promise<void> {
    if (!this.#closed) this.#process.kill('SIGKILL');
    await this.#ended;
  }
}

export type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

/** The child's side: answers requests until the parent goes away. */
export function serve(handlers: Handlers): void {
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (message: { id: number; name: string; argument: never }) => {
    const reply: { id: number; value?: unknown; error?: { message: string; code?: string } } = { id: message.id };
    try {
      reply.value = await handlers[message.name](message.argument);
    } catch (error) {
      const { message: text, code } = error as Error & { code?: string };
      reply.error = { message: text, code };
    }
    process.send?.(reply);
  });
}
