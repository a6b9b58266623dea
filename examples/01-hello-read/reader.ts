/** Connects, learns where the owner's memory is, and reads it. The owner takes no part in the READ. */

import { openDevice } from 'verbena/verbs';

const device = await openDevice('shm');
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });

const connection = await device.connect(process.argv[2], qp);
const remote = JSON.parse(new TextDecoder().decode(connection.privateData));

const memory = pd.register(device.alloc(remote.length), { localWrite: true });
qp.postSend({ opcode: 'RDMA_READ', sgl: [memory.slice()], remoteAddr: remote.addr, rkey: remote.rkey });
const { status, byteLen } = await cq.next();

const text = new TextDecoder().decode(memory.bytes).replace(/\0+$/, '');
console.log(`process ${process.pid} read ${byteLen} bytes (${status}): "${text}"`);
connection.disconnect();
device.close();
