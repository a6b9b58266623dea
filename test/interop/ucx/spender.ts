/** A process that opens UCX, makes workers and takes memory until one of them is refused; it tells how each step ended. */

import { type Context, openContext, type Worker } from '../../../src/messaging/index.js';

const told: Record<string, string> = {};

async function step<T>(name: string, act: () => T | Promise<T>): Promise<T | undefined> {
  try {
    const made = await act();
    told[name] = 'works';
    return made;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    told[name] = `${code}: ${message}`;
    return undefined;
  }
}

const context = (await step('context', () => openContext({ engine: 'ucx' }))) as Context;
const near = await step('first worker', () => context.createWorker());
const far = await step('second worker', () => context.createWorker());
await step('memory', () => context.alloc(4 << 20).fill(1));
if (near && far) {
  await step('message', () => {
    const sent = (near as Worker).connect((far as Worker).address).send(1, new Uint8Array(100_000));
    return Promise.all([sent, (far as Worker).recv(1, new Uint8Array(100_000))]);
  });
}
await context.close();
console.log(JSON.stringify(told));
