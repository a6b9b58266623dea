/**
 * Answers rping: reads what the client offers, and writes it back. Any librdmacm program can be the client; the kernel does not know that the
 * other end is TypeScript.
 *
 * node pong.ts [DEVICE] [PORT]
 */

import { openDevice } from 'verbena/verbs';

const INFO_BYTES = 16;
const [name = 'roce', port = '7174'] = process.argv.slice(2);

const device = await openDevice(name);
const listener = await device.listen(port); // a number is a port of librdmacm
process.send?.('listening');

const request = await listener.accept();
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const data = pd.register(device.alloc(1 << 20), { localWrite: true });
const info = pd.register(device.alloc(INFO_BYTES), { localWrite: true });
const connection = await request.accept(qp);

/** Waits for the client's next offer: where its memory is. */
async function offer(): Promise<{ remoteAddr: number; rkey: number; length: number } | undefined> {
  qp.postRecv({ sgl: [info.slice()], id: 1 });
  for (;;) {
    const { id, status } = await cq.next();
    if (status !== 'SUCCESS') return undefined; // the client has disconnected
    if (id !== 1) continue;
    const view = new DataView(info.bytes.buffer, info.bytes.byteOffset);
    return { remoteAddr: Number(view.getBigUint64(0)), rkey: view.getUint32(8), length: view.getUint32(12) };
  }
}

let rounds = 0;
for (let source = await offer(); source; source = await offer()) {
  qp.postSend({ opcode: 'RDMA_READ', sgl: [data.slice(0, source.length)], ...source, id: 2 });
  qp.postSend({ opcode: 'SEND', inlineData: new Uint8Array(INFO_BYTES), fence: true, id: 3 }); // after the READ: go on
  const sink = await offer();
  if (!sink) break;
  qp.postSend({ opcode: 'RDMA_WRITE', sgl: [data.slice(0, sink.length)], ...sink, id: 4 });
  qp.postSend({ opcode: 'SEND', inlineData: new Uint8Array(INFO_BYTES), id: 5 });
  rounds++;
}
console.log(`answered ${rounds} pings`);
connection.disconnect();
device.close();
