/** A remote procedure call with active messages: a square root server, and a client that asks it. Run it: it starts the server by itself. */

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { openContext } from 'verbena/messaging';

const ASK = 1;
const ANSWER = 2;
const STOP = 3;
const name = process.argv[2] ?? `square-roots-${process.pid}`;

const context = await openContext({ device: 'shm' });
const worker = await context.createWorker();

if (process.argv[2] !== undefined) {
  // The server: the header says which call it is, the payload is what to compute.
  worker.handle(ASK, async (message) => {
    const header = message.header.slice();
    const numbers = new Float64Array(message.length / 8);
    await message.receive(numbers);
    await message.endpoint.am(ANSWER, header, numbers.map(Math.sqrt));
  });
  const stopped = new Promise<void>((resolve) => worker.handle(STOP, () => resolve()));
  await worker.connect(name).ready();
  await stopped;
} else {
  const listener = await worker.listen(name);
  const server = fork(fileURLToPath(import.meta.url), [name]);
  const endpoint = await listener.accept();
  const calls = new Map<number, (result: Float64Array) => void>();
  worker.handle(ANSWER, async (message) => {
    const call = new Uint32Array(message.header.slice().buffer)[0];
    const result = new Float64Array(message.length / 8);
    await message.receive(result);
    calls.get(call)?.(result);
    calls.delete(call);
  });
  let next = 0;
  const roots = async (numbers: Float64Array): Promise<Float64Array> => {
    const call = next++;
    const answered = new Promise<Float64Array>((resolve) => calls.set(call, resolve));
    await endpoint.am(ASK, new Uint8Array(new Uint32Array([call]).buffer), numbers);
    return answered;
  };
  console.log('roots of 4, 9, 16:', ...(await roots(Float64Array.of(4, 9, 16))));
  const many = await roots(Float64Array.from({ length: 1_000_000 }, (_, i) => i * i));
  console.log(`a million roots, the last is ${many[999_999]}: the payload was read straight from the other process`);
  await endpoint.am(STOP, new Uint8Array(0), new Uint8Array(0));
  server.unref();
}
await worker.close({ force: true });
await context.close();
process.exit(0);
