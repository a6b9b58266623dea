/**
 * Every operation between two devices that speak InfiniBand's transport, whoever made them: each end lends memory, and works on the memory of the
 * other. Addresses go over a TCP connection, a line each.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Device, QpAddress, RemoteRegion, SendWorkRequest } from '../../../src/verbs/index.js';

const BYTES = 16_384;
const MESSAGE = 5000;
const RIGHTS = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };
const PATIENCE_MS = 60_000;

interface Hello {
  readonly rc: QpAddress;
  readonly uc: QpAddress;
  readonly ud: QpAddress;
  readonly memory: RemoteRegion;
}

const pattern = (length: number, seed: number) => Uint8Array.from({ length }, (_, i) => i * 13 + seed + (i >> 8));

/** Plays one end; both ends do the same. `seed` differs at the two ends. */
export async function exchangeEverything(device: Device, socket: Socket, seed: number): Promise<string[]> {
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  const hear = async (): Promise<string> => ((await lines.next()) as { value: string }).value;
  const say = (value: unknown) => socket.write(`${JSON.stringify(value)}\n`);
  const done: string[] = [];

  const pd = device.allocPd();
  const cq = device.createCq({ depth: 64, mode: 'event' });
  const memory = pd.register(device.alloc(BYTES), RIGHTS);
  const near = pd.register(device.alloc(BYTES), { localWrite: true });
  const make = (type: 'RC' | 'UC' | 'UD') => pd.createQp({ type, sendCq: cq, recvCq: cq });
  const [rc, uc, ud] = [make('RC'), make('UC'), make('UD')];
  say({ rc: rc.address(), uc: uc.address(), ud: ud.address(), memory: memory.remote() } satisfies Hello);
  const theirs = JSON.parse(await hear()) as Hello;
  await rc.connect(theirs.rc);
  await uc.connect(theirs.uc);
  await ud.connect();
  const inbox = pd.register(device.alloc(BYTES), { localWrite: true });
  for (const [i, qp] of [rc, rc, rc, uc].entries()) qp.postRecv({ sgl: [inbox.slice()], id: 100 + i });
  ud.postRecv({ sgl: [inbox.slice()], id: 104 });
  const step = async (what: string) => {
    say(what);
    assert.equal(JSON.parse(await hear()), what, 'both ends are at the same step');
  };
  await step('ready');

  const take = async (id: number): Promise<{ byteLen: number; imm: number | undefined }> => {
    const completion = await cq.next({ timeoutMs: PATIENCE_MS });
    assert.equal(completion.status, 'SUCCESS', `${id}: ${completion.cause?.words}`);
    assert.equal(completion.id, id);
    return completion;
  };
  const operate = async (request: SendWorkRequest) => {
    rc.postSend({ ...request, id: 7 });
    await take(7);
  };
  const remote = (offset: number) => ({ remoteAddr: theirs.memory.addr + offset, rkey: theirs.memory.rkey });
  const words = new BigUint64Array(near.bytes.buffer, near.bytes.byteOffset, 1);
  const theirSeed = 3 - seed;

  near.bytes.set(pattern(MESSAGE, seed));
  await operate({ opcode: 'RDMA_WRITE', sgl: [near.slice(0, MESSAGE)], ...remote(64) });
  near.bytes.fill(0);
  await operate({ opcode: 'RDMA_READ', sgl: [near.slice(0, 2000), near.slice(4000, 3000)], ...remote(64) });
  const read = Buffer.concat([near.bytes.subarray(0, 2000), near.bytes.subarray(4000, 7000)]);
  assert.deepEqual(read, Buffer.from(pattern(MESSAGE, seed)), 'written, then read into two pieces');
  done.push('WRITE', 'READ');
  for (let i = 0n; i < 5n; i++) {
    await operate({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [near.slice(0, 8)], add: 0x1_0000_0003n, ...remote(0) });
    assert.equal(words[0], i * 0x1_0000_0003n);
  }
  await operate({ opcode: 'ATOMIC_CMP_AND_SWP', sgl: [near.slice(0, 8)], compare: 0n, swap: BigInt(seed), ...remote(8) });
  assert.equal(words[0], 0n);
  done.push('FETCH_AND_ADD', 'CMP_AND_SWP');
  await step('one-sided');
  assert.deepEqual(
    Buffer.from(memory.bytes.subarray(64, 64 + MESSAGE)),
    Buffer.from(pattern(MESSAGE, theirSeed)),
    'written by the peer',
  );
  const counted = new BigUint64Array(memory.bytes.buffer, memory.bytes.byteOffset, 2);
  assert.deepEqual([...counted], [5n * 0x1_0000_0003n, BigInt(theirSeed)], "the peer's atomics");

  // Two-sided, one end after the other, so that every completion has its place.
  const send = async (qp: typeof rc, request: SendWorkRequest) => {
    qp.postSend({ ...request, id: 9 });
    await take(9);
  };
  const talk = async () => {
    near.bytes.set(pattern(MESSAGE, seed));
    await send(rc, { opcode: 'SEND', sgl: [near.slice(0, MESSAGE)] });
    await send(rc, { opcode: 'SEND_WITH_IMM', inlineData: pattern(40, seed), imm: 0xfedcba98 });
    await send(rc, { opcode: 'RDMA_WRITE_WITH_IMM', sgl: [near.slice(0, 100)], imm: seed, ...remote(12_000) });
    await send(uc, { opcode: 'SEND', sgl: [near.slice(0, 900)] });
    const ah = pd.createAh(theirs.ud.av);
    const datagram = { ah, remoteQpn: theirs.ud.qpNum, remoteQkey: 0x11111111 };
    await send(ud, { opcode: 'SEND_WITH_IMM', sgl: [near.slice(0, 500)], imm: 5, ...datagram });
  };
  const listen = async () => {
    const expected = pattern(MESSAGE, theirSeed);
    const check = (length: number, at = 0) =>
      assert.deepEqual(Buffer.from(inbox.bytes.subarray(at, at + length)), Buffer.from(expected.subarray(0, length)));
    // The buffer is shared, so what is looked at is only what came last into it; lengths and immediates tell the rest.
    assert.equal((await take(100)).byteLen, MESSAGE);
    const second = await take(101);
    assert.deepEqual([second.byteLen, second.imm], [40, 0xfedcba98]);
    const third = await take(102);
    assert.deepEqual([third.byteLen, third.imm], [100, theirSeed]);
    assert.deepEqual(Buffer.from(memory.bytes.subarray(12_000, 12_100)), Buffer.from(expected.subarray(0, 100)));
    assert.equal((await take(103)).byteLen, 900);
    const last = await take(104);
    assert.deepEqual([last.byteLen, last.imm], [540, 5]);
    check(500, 40);
  };
  if (seed === 1) await talk();
  else await listen();
  await step('half');
  if (seed === 2) await talk();
  else await listen();
  await step('done');
  done.push('SEND', 'SEND_WITH_IMM', 'WRITE_WITH_IMM', 'UC SEND', 'UD SEND_WITH_IMM');
  for (const qp of [rc, uc, ud]) qp.close();
  return done;
}

/** The first line of a connection. */
export async function accepted(server: import('node:net').Server): Promise<Socket> {
  const [socket] = (await once(server, 'connection')) as [Socket];
  return socket;
}
