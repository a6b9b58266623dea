/**
 * A second process for messaging tests: what it does is named on its command line. It connects to the listener of the test and plays its part.
 *
 * Run as a program it is the companion; imported it starts one. A watchdog kills it, so that no test leaves a process behind.
 */

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type Endpoint, openContext, type Worker } from '../../src/messaging/index.js';

const WATCHDOG_MS = 60_000;
const BLOCKED_MS = 5000;

/** A companion that runs. */
export interface Companion {
  readonly process: ChildProcess;
  /** Resolves when it has ended, with its exit code or signal. */
  readonly ended: Promise<number | string | null>;
}

/** Starts a companion that plays a part against a listener. */
export function startCompanion(part: keyof typeof PARTS, listener: string): Companion {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = fork(fileURLToPath(import.meta.url), [part, listener], { env });
  const watchdog = setTimeout(() => child.kill('SIGKILL'), WATCHDOG_MS);
  const ended = once(child, 'exit').then(([code, signal]) => {
    clearTimeout(watchdog);
    return (code ?? signal) as number | string;
  });
  return { process: child, ended };
}

type Part = (worker: Worker, endpoint: Endpoint) => Promise<void>;

/** Receives until tag 0 comes; the sum of all bytes. */
async function sumOf(worker: Worker): Promise<number> {
  const into = new Uint8Array(4 << 20);
  for (let sum = 0; ; ) {
    const { length, tag } = await worker.recv(0, into, { mask: 0 });
    if (tag === 0) return sum;
    for (let i = 0; i < length; i++) sum += into[i];
  }
}

const PARTS = {
  /** Sends back what it receives, tag by tag, until tag 0 comes. */
  async echo(worker, endpoint) {
    const into = new Uint8Array(4 << 20);
    for (;;) {
      const { length, tag } = await worker.recv(0, into, { mask: 0, timeoutMs: Number.POSITIVE_INFINITY });
      if (tag === 0) return;
      await endpoint.send(tag, into.subarray(0, length));
    }
  },

  /** Never takes anything. */
  async idle() {
    process.send?.('idle');
    await new Promise(() => {
      setInterval(() => {}, 1000);
    });
  },

  /** Looks at nothing, event loop alive, until it is told; then takes what has come and tells the sum of its bytes. */
  async late(worker) {
    process.send?.('idle');
    await once(process, 'message');
    process.send?.(await sumOf(worker));
  },

  /** The same with a blocked thread. */
  async lateBlocked(worker) {
    process.send?.('idle');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS);
    process.send?.('awake');
    process.send?.(await sumOf(worker));
  },

  /** Exposes 4096 bytes and a word, tells the key, then blocks its thread until the word is written. */
  async blocked(worker, endpoint) {
    const exposed = worker.expose(worker.context.alloc(8192));
    const word = new Int32Array(exposed.bytes.buffer, exposed.bytes.byteOffset + 4096, 1);
    await endpoint.send(1, exposed.pack());
    const into = new Uint8Array(1);
    await worker.recv(2, into);
    process.send?.('blocked');
    for (const until = performance.now() + WATCHDOG_MS; Atomics.load(word, 0) === 0 && performance.now() < until; );
    await endpoint.send(3, exposed.bytes.subarray(0, 4096));
    await worker.recv(4, into);
  },

  /** Waits in event mode for a message that comes late, and tells its CPU time. */
  async sleeper(worker, endpoint) {
    const into = new Uint8Array(1);
    await endpoint.send(1, into);
    const before = process.cpuUsage();
    await worker.recv(2, into);
    const used = process.cpuUsage(before);
    await endpoint.send(3, new Float64Array([used.user + used.system]));
    await worker.recv(4, into);
  },
} satisfies Record<string, Part>;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [part, listener] = process.argv.slice(2);
  const context = await openContext({ device: 'shm', name: `companion ${part}` });
  const worker = await context.createWorker({ mode: part === 'sleeper' ? 'event' : 'adaptive' });
  const endpoint = worker.connect(listener);
  await endpoint.ready();
  await PARTS[part as keyof typeof PARTS](worker, endpoint);
  await worker.close();
  await context.close();
  process.exit(0);
}
