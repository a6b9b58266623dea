/** A server that this process runs, seen from the main thread. */
import { Worker as Thread } from 'node:worker_threads';
import type { World } from '../../launch/index.js';
import type { GroupPlan, ServerCounters } from './server.js';
import type { ServerAnswer, ServerRequest, ServerThreadInput } from './server-thread.js';

export class ServerHandle {
  readonly index: number;
  /** What workers and other servers connect to. */
  readonly address: Uint8Array;
  /** Kept for the thread, which reads its board. */
  readonly world: World | undefined;
  readonly #thread: Thread;
  readonly #waiting: { resolve: (answer: ServerAnswer) => void; reject: (error: Error) => void }[] = [];
  #failure: Error | undefined;
  #closed: Promise<ServerCounters | undefined> | undefined;

  private constructor(index: number, address: Uint8Array, thread: Thread, world: World | undefined) {
    this.index = index;
    this.address = address;
    this.world = world;
    this.#thread = thread;
    thread.on('message', (answer: ServerAnswer) => this.#hear(answer));
    thread.on('error', (error) => this.#fail(error));
    thread.on('exit', () => this.#fail(new Error(`parameter server ${index} has ended`)));
    thread.unref();
  }

  /** Starts server `index` of the plan on a thread, named `name`. Throws what opening its device throws. */
  static start(index: number, plan: GroupPlan, name: string, world: World | undefined): Promise<ServerHandle> {
    const board = world && { size: world.size, address: world.liveness.board.address };
    const input: ServerThreadInput = { index, plan, name, board };
    const thread = new Thread(new URL('./server-thread.js', import.meta.url), {
      workerData: input,
      execArgv: [],
      trackUnmanagedFds: false, // its device closes what it opened
    });
    return new Promise((resolve, reject) => {
      thread.once('error', reject);
      thread.once('message', ({ address }: ServerAnswer) => {
        thread.off('error', reject);
        resolve(new ServerHandle(index, address as Uint8Array, thread, world));
      });
    });
  }

  /** Makes the replica at the next server. All servers do it at the same time; `addresses` are theirs, in order. */
  async connect(addresses: readonly Uint8Array[]): Promise<void> {
    await this.#ask({ ask: 'connect', addresses });
  }

  async counters(): Promise<ServerCounters> {
    return (await this.#ask({ ask: 'counters' })).counters as ServerCounters;
  }

  /** Why the server stopped by itself, or undefined. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits until the workers have left, at most `patienceMs`, then ends the thread. Returns its last counters. Idempotent. */
  close(patienceMs: number): Promise<ServerCounters | undefined> {
    this.#closed ??= this.#close(patienceMs);
    return this.#closed;
  }

  async #close(patienceMs: number): Promise<ServerCounters | undefined> {
    let last: ServerCounters | undefined;
    try {
      last = (await this.#ask({ ask: 'close', patienceMs })).counters;
    } catch {
      // It ended before.
    }
    await this.#thread.terminate();
    return last;
  }

  #ask(request: ServerRequest): Promise<ServerAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      const release = () => {
        if (this.#waiting.length === 0) this.#thread.unref();
      };
      this.#thread.ref();
      this.#waiting.push({
        resolve: (answer) => {
          release();
          resolve(answer);
        },
        reject: (error) => {
          release();
          reject(error);
        },
      });
      this.#thread.postMessage(request);
    });
  }

  #hear(answer: ServerAnswer): void {
    if (answer.fatal) {
      this.#fail(new Error(answer.error));
      return;
    }
    const waiter = this.#waiting.shift();
    if (answer.error === undefined) waiter?.resolve(answer);
    else waiter?.reject(new Error(answer.error));
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
