/** The other half of the harness: what a scenario imports. Works in a process (lines on stdin and stdout) and in a worker thread. */

import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { parentPort, workerData } from 'node:worker_threads';
import type { Message } from './harness.js';

const arrived: Message[] = [];
let wake: (() => void) | undefined;

const take = (message: Message) => {
  arrived.push(message);
  wake?.();
};

let release: () => void;
if (parentPort) {
  const port = parentPort;
  port.on('message', take);
  release = () => port.close();
} else {
  const lines = createInterface({ input: process.stdin }).on('line', (line) => take(JSON.parse(line) as Message));
  release = () => {
    lines.close();
    process.stdin.destroy();
  };
}

/** Tells the test something. Written at once, so that the scenario may block right after it. */
export function say(type: string, fields: Record<string, unknown> = {}): void {
  if (parentPort) parentPort.postMessage({ type, ...fields });
  else writeSync(1, `${JSON.stringify({ type, ...fields })}\n`);
}

/** The next message of the test, which must be of this type. */
export async function hear<T = Message>(type: string): Promise<T> {
  while (arrived.length === 0) {
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
  const message = arrived.shift() as Message;
  if (message.type !== type) throw new Error(`heard ${JSON.stringify(message)} instead of '${type}'`);
  return message as T;
}

/** Runs the scenario with the test's input. A failure is said and ends it with code 1. */
export function scenario<T>(body: (input: T) => Promise<void>): void {
  const input = (parentPort ? workerData : JSON.parse(process.argv[2] ?? '{}')) as T;
  body(input).then(release, (error: unknown) => {
    say('failed', { error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    process.exitCode = 1;
    release();
  });
}
