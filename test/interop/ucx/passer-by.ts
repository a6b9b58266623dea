/** A process that connects to a worker, says something and is gone a moment later. */

import { openContext } from '../../../src/messaging/index.js';

const [, , device, address, stayMs] = process.argv;
const context = await openContext({ device });
const worker = await context.createWorker();
const endpoint = worker.connect(Buffer.from(address, 'base64'));
endpoint.send(1, new Uint8Array(100)).catch(() => {});
const end = performance.now() + Number(stayMs);
do {
  worker.poll();
  await new Promise((resolve) => setImmediate(resolve));
} while (performance.now() < end);
process.kill(process.pid, 'SIGKILL');
