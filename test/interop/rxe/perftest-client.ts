/**
 * The active end of ib_write_bw, ib_read_bw, ib_send_bw and ib_atomic_bw (perftest). Over TCP the tools say, each time the client first and the
 * server with the same number of bytes after it:
 *
 *     version (16) · cache line (4) · inline (4) · MTU code (2) · keys (108) four times, twice to learn and twice to meet
 *     ... the operations ...
 *     results (8) five times, but for ib_send_bw · keys (108) · "done"
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Device, MemoryRegion, Opcode, QpAddress } from '../../../src/verbs/index.js';
import { parseIp } from '../../../src/verbs/ip-address.js';
import { dial } from './pingpong.js';

const KEY_BYTES = 108;
const RESULTS = 5;
const PATIENCE_MS = 50_000;

export type Tool = 'write' | 'read' | 'send' | 'atomic';

const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0');

/** The version that the tools of this machine call themselves. */
function version(): string {
  const { stdout } = spawnSync('ib_write_bw', ['--version'], { encoding: 'utf8' });
  return /(\d+\.\d+)/.exec(stdout ?? '')?.[1] ?? '6.06';
}

async function exchange(socket: Socket, words: Buffer): Promise<Buffer> {
  socket.write(words);
  for (;;) {
    const data = socket.read(words.length) as Buffer | null;
    if (data !== null) return data;
    await once(socket, 'readable');
  }
}

function keysOf(own: QpAddress, region: MemoryRegion): Buffer {
  const gid = [...(parseIp(own.av.gid) as Uint8Array)].map((byte) => hex(byte, 2)).join(':');
  const keys = Buffer.alloc(KEY_BYTES);
  keys.write(`0000:0001:${hex(own.qpNum, 6)}:${hex(own.psn, 6)}:${hex(region.rkey, 8)}:${hex(region.addr, 16)}:${gid}:00000000:`);
  return keys;
}

interface Server {
  readonly address: QpAddress;
  readonly rkey: number;
  readonly addr: number;
}

function serverOf(text: string, own: QpAddress): Server {
  const fields = text.split(':');
  const gid = (fields.slice(6, 22).join('').match(/.{4}/g) as string[]).join(':');
  return {
    address: { ...own, av: { gid }, qpNum: Number.parseInt(fields[2], 16), psn: Number.parseInt(fields[3], 16) },
    rkey: Number.parseInt(fields[4], 16),
    addr: Number.parseInt(fields[5], 16),
  };
}

/** Throws unless the bytes are what pattern.c makes perftest send. */
export function assertPattern(bytes: Uint8Array): void {
  for (let i = 1; i < bytes.length; i++)
    assert.equal(
      (bytes[i] - bytes[i - 1]) & 255,
      13,
      `byte ${i} of ${bytes.length}: ${bytes.subarray(Math.max(0, i - 8), i + 24).join(' ')}`,
    );
}

const padded = (text: string, bytes: number): Buffer => {
  const words = Buffer.alloc(bytes);
  words.write(text);
  return words;
};

/**
 * Runs `count` operations of `size` bytes against a server of the tool at `host`, which has pattern.c preloaded. READs and atomics are checked by
 * what they return; what a WRITE has written cannot be read back, because the server of ib_write_bw grants no READ: atomics.ts does that.
 */
export async function runPerftest(
  device: Device,
  host: string,
  port: number,
  tool: Tool,
  size: number,
  count: number,
): Promise<void> {
  const pd = device.allocPd();
  const cq = device.createCq();
  const region = pd.register(device.alloc(2 * Math.max(size, 8)), { localWrite: true });
  for (let i = 0; i < size; i++) region.bytes[i] = i * 13 + (i >> 8);
  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
  const own = qp.address();
  const socket = await dial(host, port);
  await exchange(socket, padded(version(), 16));
  await exchange(socket, Buffer.from([0, 0, 0x10, 0]));
  await exchange(socket, Buffer.from([0, 0, 0, 0x40]));
  await exchange(socket, padded('3', 2));
  const keys = keysOf(own, region);
  const server = serverOf((await exchange(socket, keys)).toString('latin1'), own);
  await exchange(socket, keys);
  await qp.connect(server.address);
  await exchange(socket, keys);
  await exchange(socket, keys);

  const remote = { remoteAddr: server.addr, rkey: server.rkey };
  const run = async (opcode: Opcode, at: number, length: number): Promise<void> => {
    const isAtomic = opcode === 'ATOMIC_FETCH_AND_ADD';
    qp.postSend({
      opcode,
      sgl: [region.slice(at, length)],
      ...(opcode === 'SEND' ? {} : remote),
      ...(isAtomic && { add: 1n }),
    });
    const completion = await cq.next({ timeoutMs: PATIENCE_MS });
    assert.equal(completion.status, 'SUCCESS', completion.cause?.words);
  };
  const landing = new DataView(region.bytes.buffer, region.bytes.byteOffset + size, 8);
  let expected: bigint | undefined;
  for (let i = 0; i < count; i++) {
    if (tool === 'send') await run('SEND', 0, size);
    else if (tool === 'write') await run('RDMA_WRITE', 0, size);
    else if (tool === 'read') {
      region.bytes.fill(0, size);
      await run('RDMA_READ', size, size);
      assertPattern(region.bytes.subarray(size));
    } else {
      await run('ATOMIC_FETCH_AND_ADD', size, 8);
      const found = landing.getBigUint64(0, true);
      if (expected !== undefined) assert.equal(found, expected, `addition ${i}`);
      expected = BigInt.asUintN(64, found + 1n);
    }
  }
  if (tool !== 'send') for (let i = 0; i < RESULTS; i++) await exchange(socket, Buffer.alloc(8));
  await exchange(socket, keys);
  // The server does not read this to the end: it hangs up as soon as it has its results.
  socket.on('error', () => {});
  socket.end('done\0');
}
