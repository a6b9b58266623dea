/** A process that takes part in everything UCX does, until it is killed. */

import { openContext } from '../../../src/messaging/index.js';

const context = await openContext({ device: process.argv[2] });
const worker = await context.createWorker();
process.on('disconnect', () => process.exit(0));
worker.handle(1, () => {});
const memory = worker.expose(context.alloc(4 << 20));
const arrived = new Promise<void>((resolve) => {
  worker.onEndpoint = (endpoint) => {
    const into = new Uint8Array(1 << 20);
    const forever = async (take: () => Promise<unknown>) => {
      for (;;) await take();
    };
    forever(() => worker.recv(1, into, { timeoutMs: Number.POSITIVE_INFINITY })).catch(() => {});
    forever(() => endpoint.stream.read(into, { timeoutMs: Number.POSITIVE_INFINITY })).catch(() => {});
    resolve();
  };
});
process.send?.({ address: [...worker.address], key: [...memory.pack()] });
await arrived;
