/**
 * The other end of atomics.c: lends memory that the kernel's end works on, then works on the memory that it lends.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Device, SendWorkRequest } from '../../../src/verbs/index.js';
import { parseIp } from '../../../src/verbs/ip-address.js';
import { dial } from './pingpong.js';

const BYTES = 8192;
const RIGHTS = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };

export async function exchangeAtomics(device: Device, host: string, port: number): Promise<void> {
  const pd = device.allocPd();
  const cq = device.createCq();
  const memory = pd.register(device.alloc(BYTES), RIGHTS);
  const result = pd.register(device.alloc(4096), { localWrite: true });
  const [words, results] = [memory, result].map(({ bytes }) => new BigUint64Array(bytes.buffer, bytes.byteOffset, 2));
  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  for (let i = 0; i < 3000; i++) memory.bytes[64 + i] = i * 13;

  const socket = await dial(host, port);
  const lines = createInterface({ input: socket });
  const hear = async () => ((await once(lines, 'line')) as [string])[0];
  const { av, qpNum, psn } = qp.address();
  const gid = Buffer.from(parseIp(av.gid) as Uint8Array).toString('hex');
  const answer = hear();
  socket.write(`${qpNum.toString(16)} ${psn.toString(16)} ${gid} ${memory.addr.toString(16)} ${memory.rkey.toString(16)}\n`);
  const [theirQp, theirPsn, theirGid, address, key] = (await answer).split(' ');
  const peer = { ...qp.address(), qpNum: Number.parseInt(theirQp, 16), psn: Number.parseInt(theirPsn, 16) };
  await qp.connect({ ...peer, av: { gid: (theirGid.match(/.{4}/g) as string[]).join(':') } }, { maxRdAtomic: 1 });

  const done = hear();
  socket.write('go\n');
  assert.equal(await done, 'done');
  assert.deepEqual([...words], [30n, 5n], "the kernel's atomics");
  assert.deepEqual(
    Buffer.from(memory.bytes.subarray(4096, 7096)),
    Buffer.from(memory.bytes.subarray(64, 3064)),
    'read, then written',
  );

  const far = Number.parseInt(address, 16);
  const rkey = Number.parseInt(key, 16);
  const operate = async (request: Omit<SendWorkRequest, 'rkey'>): Promise<void> => {
    qp.postSend({ ...request, rkey });
    const completion = await cq.next({ timeoutMs: 30_000 });
    assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
  };
  const eight = [result.slice(0, 8)];
  for (let i = 0; i < 10; i++) {
    await operate({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: eight, remoteAddr: far, add: 0x1_0000_0007n });
    assert.equal(results[0], BigInt(i) * 0x1_0000_0007n);
  }
  await operate({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: eight, remoteAddr: far + 8, compare: 1n, swap: 2n });
  assert.equal(results[0], 0n, 'another value than expected: nothing is swapped');
  await operate({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: eight, remoteAddr: far + 8, compare: 0n, swap: 0xabcdef0123456789n });
  await operate({ opcode: 'RDMA_WRITE', sgl: [memory.slice(64, 3000)], remoteAddr: far + 4096 });
  await operate({ opcode: 'RDMA_READ', sgl: [result.slice(0, 3000)], remoteAddr: far + 4096 });
  assert.deepEqual(
    Buffer.from(result.bytes.subarray(0, 3000)),
    Buffer.from(memory.bytes.subarray(64, 3064)),
    'written, then read',
  );
  const right = hear();
  socket.write(`check ${(10n * 0x1_0000_0007n).toString(16)} abcdef0123456789\n`);
  assert.equal(await right, 'right');
  socket.destroy();
}
