/**
 * A counter that several processes raise while its owner is blocked in a synchronous loop: no callback runs here, no message arrives, and
 * the count is right.
 */

import { type ChildProcess, fork } from 'node:child_process';
import { openDevice } from 'verbena/verbs';

const ADDERS = 3;
const ADDS = 20_000;

const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const counter = new BigUint64Array(device.alloc(8));
const memory = pd.register(counter, { remoteAtomic: true });
const privateData = new TextEncoder().encode(JSON.stringify(memory.remote()));

const name = `one-sided-counter/${process.pid}`;
const listener = await device.listen(name);
const adders: ChildProcess[] = [];
for (let i = 0; i < ADDERS; i++) {
  adders.push(fork(new URL('./adder.ts', import.meta.url), [name, String(ADDS)]));
  const request = await listener.accept();
  await request.accept(pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }), { privateData });
}

let turns = 0;
setImmediate(() => turns++);
for (const adder of adders) adder.send('go');
const start = performance.now();
while (Atomics.load(counter, 0) < BigInt(ADDERS * ADDS) && performance.now() - start < 20_000); // the event loop stands still
console.log(`counted to ${counter[0]} by ${ADDERS} processes while blocked; turns of the event loop: ${turns}`);
device.close();
