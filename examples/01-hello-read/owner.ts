/** Puts a sentence into its memory, lets one peer in, and looks at the memory no more: the peer reads it by itself. */

import { fork } from 'node:child_process';
import { openDevice } from 'verbena/verbs';

const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });

const memory = pd.register(device.alloc(64), { remoteRead: true });
new TextEncoder().encodeInto(`hello from the memory of process ${process.pid}`, memory.bytes);

const name = `hello-read/${process.pid}`;
const listener = await device.listen(name);
fork(new URL('./reader.ts', import.meta.url), [name]);

const request = await listener.accept();
const privateData = new TextEncoder().encode(JSON.stringify(memory.remote())); // address, length and key
const connection = await request.accept(qp, { privateData });
await connection.closed;
device.close();
