/**
 * The passive end of ib_write_bw, ib_read_bw and ib_atomic_bw. The tools talk over TCP: whatever they say, versions, sizes, results, is
 * answered with the same words; only the text with queue pair and key is answered with ours:
 *
 *     lid:reads:qpn:psn:rkey:address:gid in 16 parts:srqn:        108 bytes
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type Device, type QpAddress, WorkCompletions } from '../../../src/verbs/index.js';
import { gidOf } from '../../../src/verbs/providers/ibverbs/address-words.js';

const KEY_BYTES = 108;
const MEMORY_BYTES = 1 << 20;
const HEX = /^[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{6}:[0-9a-f]{6}:[0-9a-f]{8}:[0-9a-f]{16}(:[0-9a-f]{2}){16}:/;

const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0');

/** Lends memory to one run of a tool and returns it, with how often keys were exchanged. `receives`: requests posted for ib_send_bw. */
export async function servePerftest(
  device: Device,
  host: string,
  port: number,
  receives = 0,
): Promise<{ memory: Uint8Array; shakes: number; received: number }> {
  const pd = device.allocPd();
  const cq = device.createCq();
  const memory = pd.register(device.alloc(MEMORY_BYTES), {
    localWrite: true,
    remoteRead: true,
    remoteWrite: true,
    remoteAtomic: true,
  });
  const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq, maxRecvWr: Math.max(1, receives) });
  const own = qp.address();
  const gid = [...gidOf(own.av.gid)].map((byte) => hex(byte, 2)).join(':');
  const keys = Buffer.alloc(KEY_BYTES);
  keys.write(
    `0000:0010:${hex(own.qpNum, 6)}:${hex(own.psn, 6)}:${hex(memory.rkey, 8)}:${hex(memory.addr, 16)}:${gid}:00000000:`,
    'latin1',
  );

  const server = createServer().listen(port, host);
  const [socket] = (await once(server, 'connection')) as [Socket];
  server.close();
  let shakes = 0;
  for await (const chunk of socket) {
    const text = (chunk as Buffer).toString('latin1');
    if (!HEX.test(text)) {
      if (!text.startsWith('done')) socket.write(chunk as Buffer);
      continue;
    }
    if (shakes++ === 0) {
      await qp.connect(peerOf(text, own));
      for (let i = 0; i < receives; i++) qp.postRecv({ sgl: [memory.slice()], id: i });
    }
    socket.write(keys);
  }
  assert.ok(shakes > 0, 'the tool exchanged keys');
  const wcs = new WorkCompletions(64);
  let received = 0;
  for (let n = cq.poll(wcs); n > 0; n = cq.poll(wcs)) received += n;
  return { memory: memory.bytes, shakes, received };
}

function peerOf(text: string, own: QpAddress): QpAddress {
  const fields = text.split(':');
  const bytes = fields.slice(6, 22).join('');
  return {
    ...own,
    av: { gid: (bytes.match(/.{4}/g) as string[]).join(':') },
    qpNum: Number.parseInt(fields[2], 16),
    psn: Number.parseInt(fields[3], 16),
  };
}
