/** Writes messages into the receiver's ring as long as slots are free; how many were freed, it reads in its own memory. */

import { setImmediate } from 'node:timers/promises';
import { openDevice } from 'verbena/verbs';

const MESSAGES = 1000;

const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const consumed = new Uint32Array(device.alloc(4)); // the receiver writes here
const credit = pd.register(consumed, { remoteWrite: true });

const privateData = new TextEncoder().encode(JSON.stringify(credit.remote()));
const connection = await device.connect(process.argv[2], qp, { privateData });
const ring = JSON.parse(new TextDecoder().decode(connection.privateData));

for (let sent = 0; sent <= MESSAGES; sent++) {
  while (sent - Atomics.load(consumed, 0) >= ring.slots) await setImmediate(); // the ring is full
  const inlineData = new TextEncoder().encode(sent < MESSAGES ? `message ${sent}` : 'end');
  const remoteAddr = ring.addr + (sent % ring.slots) * ring.slotBytes;
  qp.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', inlineData, imm: inlineData.length, remoteAddr, rkey: ring.rkey });
  const { status, cause } = await cq.next();
  if (status !== 'SUCCESS') throw new Error(cause?.words);
}
await connection.closed;
device.close();
