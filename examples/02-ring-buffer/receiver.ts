/**
 * Owns a ring of slots that the sender writes into without asking. Each message raises one completion, whose immediate data says how long it is.
 *
 * ```
 *   sender                                    receiver
 *   WRITE_WITH_IMM ─────────────> ring  [ 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 ]
 *   consumed <──────────────────── WRITE, once per half a ring: these slots are free again
 * ```
 */

import { fork } from 'node:child_process';
import { openDevice } from 'verbena/verbs';

const SLOTS = 8;
const SLOT_BYTES = 256;

const device = await openDevice('shm');
const pd = device.allocPd();
const sendCq = device.createCq();
const recvCq = device.createCq();
const qp = pd.createQp({ type: 'RC', sendCq, recvCq });
const ring = pd.register(device.alloc(SLOTS * SLOT_BYTES), { remoteWrite: true });
const consumed = new Uint32Array(device.alloc(4));
const credit = pd.register(consumed);

const name = `ring-buffer/${process.pid}`;
const listener = await device.listen(name);
fork(new URL('./sender.ts', import.meta.url), [name]);
const request = await listener.accept();
const remote = JSON.parse(new TextDecoder().decode(request.privateData)); // where the sender wants its credits
const privateData = new TextEncoder().encode(JSON.stringify({ ...ring.remote(), slots: SLOTS, slotBytes: SLOT_BYTES }));
await request.accept(qp, { privateData });
for (let i = 0; i < SLOTS; i++) qp.postRecv({}); // a WRITE_WITH_IMM takes a receive request, but needs no buffer in it

let bytes = 0;
for (let last = false; !last; ) {
  const { imm = 0 } = await recvCq.next();
  const at = (consumed[0] % SLOTS) * SLOT_BYTES;
  const message = new TextDecoder().decode(ring.bytes.subarray(at, at + imm));
  last = message === 'end';
  bytes += imm;
  qp.postRecv({});
  consumed[0]++;
  if (consumed[0] % (SLOTS / 2) !== 0) continue;
  qp.postSend({ opcode: 'RDMA_WRITE', sgl: [credit.slice()], remoteAddr: remote.addr, rkey: remote.rkey, inline: true });
  await sendCq.next();
}
console.log(`received ${consumed[0]} messages, ${bytes} bytes, through a ring of ${SLOTS} slots`);
device.close();
