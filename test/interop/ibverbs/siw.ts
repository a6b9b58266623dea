/** Runs in the guest, on soft iWARP: SEND, WRITE and READ through rdma-cm. Prints PASS or FAIL and a name. */

import assert from 'node:assert/strict';
import { type Connection, type MemoryRegion, openDevice } from '../../../src/verbs/index.js';

const BYTES = 20_000;

async function main(): Promise<void> {
  const [near, far] = [await openDevice('ibverbs:siw0'), await openDevice('ibverbs:siw0')];
  assert.deepEqual(near.capabilities.qpTypes, ['RC']);
  const ends = [near, far].map((device) => {
    const pd = device.allocPd();
    const cq = device.createCq({ mode: 'event' });
    const memory: MemoryRegion = pd.register(device.alloc(BYTES), { localWrite: true, remoteRead: true, remoteWrite: true });
    return { device, cq, memory, qp: pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }) };
  });
  const [one, two] = ends;
  const listener = await far.listen('greeter');
  const serving = listener.accept().then((request) => {
    assert.equal(Buffer.from(request.privateData).toString(), 'hello');
    return request.accept(two.qp, { privateData: Buffer.from('welcome') });
  });
  const connecting = near.connect('greeter', one.qp, { privateData: Buffer.from('hello') });
  const [connected, accepted] = (await Promise.all([connecting, serving])) as [Connection, Connection];
  assert.equal(Buffer.from(connected.privateData).toString(), 'welcome');
  assert.equal(one.qp.state, 'RTS');
  const finish = async ({ cq }: (typeof ends)[0], id: number) => {
    const completion = await cq.next({ timeoutMs: 30_000 });
    assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
    assert.equal(completion.id, id);
  };
  for (let i = 0; i < BYTES; i++) one.memory.bytes[i] = i * 7 + (i >> 8);
  two.qp.postRecv({ sgl: [two.memory.slice(0, 9000)], id: 1 });
  one.qp.postSend({ opcode: 'SEND', sgl: [one.memory.slice(0, 9000)], id: 2 });
  await Promise.all([finish(one, 2), finish(two, 1)]);
  assert.deepEqual(Buffer.from(two.memory.bytes.subarray(0, 9000)), Buffer.from(one.memory.bytes.subarray(0, 9000)));
  console.log('PASS siw-send');
  one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [one.memory.slice()], ...remoteOf(two.memory), id: 3 });
  await finish(one, 3);
  one.memory.bytes.fill(0);
  one.qp.postSend({ opcode: 'RDMA_READ', sgl: [one.memory.slice()], ...remoteOf(two.memory), id: 4 });
  await finish(one, 4);
  assert.deepEqual(Buffer.from(one.memory.bytes), Buffer.from(two.memory.bytes));
  assert.equal(one.memory.bytes[1000], (1000 * 7 + (1000 >> 8)) & 255);
  console.log('PASS siw-write');
  console.log('PASS siw-read');
  connected.disconnect();
  assert.ok((await accepted.closed).length > 0);
  console.log('PASS siw-disconnect');
  listener.close();
  near.close();
  far.close();
}

function remoteOf({ addr, rkey }: MemoryRegion): { remoteAddr: number; rkey: number } {
  return { remoteAddr: addr, rkey };
}

try {
  await main();
} catch (error) {
  console.log(`FAIL siw ${String((error as Error).stack).replaceAll('\n', ' | ')}`);
}
process.exit(0);
