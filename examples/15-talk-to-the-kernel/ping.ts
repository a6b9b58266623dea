/**
 * Pings an rping server, this directory's or librdmacm's: offers memory that the server reads, then memory that it writes, and compares.
 *
 * node ping.ts [DEVICE] [HOST/PORT]        without arguments it starts pong.ts beside it, on the loopback
 */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { openDevice } from 'verbena/verbs';

const INFO_BYTES = 16;
const SIZE = 4000;
const ROUNDS = 10;
const [name = 'roce', given] = process.argv.slice(2);

let target = given;
let server: ReturnType<typeof fork> | undefined;
if (target === undefined) {
  target = '7174';
  server = fork(new URL('./pong.ts', import.meta.url), ['roce', target]);
  await once(server, 'message');
}

const device = await openDevice(name);
const pd = device.allocPd();
const cq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
const source = pd.register(device.alloc(SIZE), { remoteRead: true });
const sink = pd.register(device.alloc(SIZE), { remoteWrite: true });
const connection = await device.connect(target, qp);

/** Tells the server where memory is, and waits until it says that it is done with it. */
async function lend({ addr, rkey }: { addr: number; rkey: number }): Promise<void> {
  const info = new DataView(new ArrayBuffer(INFO_BYTES));
  info.setBigUint64(0, BigInt(addr));
  info.setUint32(8, rkey);
  info.setUint32(12, SIZE);
  qp.postRecv({ id: 1, sgl: [pd.register(new ArrayBuffer(INFO_BYTES), { localWrite: true }).slice()] });
  qp.postSend({ opcode: 'SEND', inlineData: new Uint8Array(info.buffer), id: 2 });
  for (;;) {
    const { id, status, cause } = await cq.next({ timeoutMs: 20_000 });
    if (status !== 'SUCCESS') throw new Error(cause?.words ?? status);
    if (id === 1) return;
  }
}

let equal = 0;
for (let round = 0; round < ROUNDS; round++) {
  const text = `rdma-ping-${round}: `.padEnd(SIZE - 1, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'.slice(round)); // rping takes a C string
  source.bytes.set(new TextEncoder().encode(text));
  await lend(source); // the server reads
  await lend(sink); // the server writes
  if (Buffer.compare(source.bytes, sink.bytes) === 0) equal++;
}
console.log(`${equal} of ${ROUNDS} pings came back as they went, ${SIZE} bytes each, through "${target}"`);
connection.disconnect();
if (server) await once(server, 'exit');
device.close();
