/**
 * What this provider sends, as tshark reads it: RRoCE, every kind of packet, no malformed field, and an ICRC that the decoder of this
 * project's own finds right on the captured bytes, IP header included.
 */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Device, openDevice } from '../../src/verbs/index.js';
import { IcrcPath } from '../../src/verbs/transport/icrc.js';
import { ownAddress } from './own-network.js';

/** The program; TSHARK in the environment names another one. */
const TSHARK = process.env['TSHARK'] ?? 'tshark';

/** Addresses of the loopback that are nobody else's. */
const [ONE, TWO] = [1, 2].map((host) => ownAddress(host).replace(/^198/, '127'));

/** tshark may take this long to begin. */
const START_MS = 30_000;

/** Why a capture cannot be made here, or undefined. */
function fault(): string | undefined {
  if (process.getuid?.() !== 0) return 'capturing needs root';
  if (spawnSync(TSHARK, ['--version']).status !== 0) return 'tshark is not installed: apt-get install tshark';
  return undefined;
}

/** One of each: SEND, WRITE and READ in several packets, both atomics. */
async function traffic(one: Device, two: Device): Promise<void> {
  const rights = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };
  const [a, b] = [one, two].map((device) => {
    const pd = device.allocPd();
    const cq = device.createCq();
    return { cq, region: pd.register(device.alloc(16384), rights), qp: pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }) };
  });
  await a.qp.connect(b.qp.address());
  await b.qp.connect(a.qp.address());
  const far = { remoteAddr: b.region.addr, rkey: b.region.rkey };
  b.qp.postRecv({ sgl: [b.region.slice(12288, 1000)] });
  const requests = [
    { opcode: 'SEND_WITH_IMM', sgl: [a.region.slice(0, 1000)], imm: 5 },
    { opcode: 'RDMA_WRITE', sgl: [a.region.slice(0, 10000)], ...far },
    { opcode: 'RDMA_READ', sgl: [a.region.slice(0, 10000)], ...far },
    { opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [a.region.slice(0, 8)], add: 3n, ...far },
    { opcode: 'ATOMIC_CMP_AND_SWP', sgl: [a.region.slice(0, 8)], compare: 3n, swap: 4n, ...far },
  ] as const;
  for (const request of requests) {
    a.qp.postSend(request);
    assert.equal((await a.cq.next({ timeoutMs: 10_000 })).status, 'SUCCESS');
  }
}

/** IPv4 packets of a capture of the loopback (link type Ethernet), nanosecond or microsecond format. */
function packetsOf(file: string): Buffer[] {
  if (!existsSync(file)) return [];
  const bytes = readFileSync(file);
  const packets: Buffer[] = [];
  for (let at = 24; at + 16 <= bytes.length; ) {
    const length = bytes.readUInt32LE(at + 8);
    packets.push(bytes.subarray(at + 16 + 14, at + 16 + length));
    at += 16 + length;
  }
  return packets;
}

test('tshark reads what the provider sends as RRoCE, and the ICRC is right for the IP header on the wire', {
  skip: fault(),
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'verbena-tshark-'));
  const file = join(folder, 'roce.pcap');
  // A capture of the loopback sees joined packets as one.
  process.env['VERBENA_ROCE_JOIN'] = '0';
  const [one, two] = [await openDevice(`roce:${ONE}:4791`), await openDevice(`roce:${TWO}:4791`)];
  const capture = spawn(TSHARK, ['-i', 'lo', '-f', `host ${ONE} and udp port 4791`, '-F', 'pcap', '-w', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(capture, 'exit');
  try {
    const [said] = (await Promise.race([once(capture.stderr, 'data'), exited])) as [Buffer];
    assert.equal(capture.exitCode, null, `tshark ended: ${String(said)}`);
    // "Capturing" is said before the first packet can be seen: traffic goes on until a whole round was captured.
    let packets: Buffer[] = [];
    for (const limit = performance.now() + START_MS; packets.length < 40; ) {
      assert.ok(performance.now() < limit, 'tshark captures nothing');
      await traffic(one, two);
      await delay(20);
      packets = packetsOf(file);
    }
    capture.kill('SIGINT');
    await exited;
    packets = packetsOf(file);
    const read = spawnSync(
      TSHARK,
      ['-r', file, '-T', 'fields', '-e', 'frame.protocols', '-e', 'infiniband.bth.opcode', '-e', '_ws.malformed'],
      {
        encoding: 'utf8',
        maxBuffer: 1 << 26,
      },
    );
    const rows = read.stdout
      .trimEnd()
      .split('\n')
      .map((row) => row.split('\t'));
    assert.equal(rows.length, packets.length);
    for (const [protocols, , malformed] of rows) {
      assert.match(protocols, /infiniband/);
      assert.equal(malformed ?? '', '');
    }
    const opcodes = new Set(rows.map((row) => Number(row[1])));
    for (const opcode of [5, 6, 7, 8, 12, 13, 14, 15, 17, 18, 19, 20]) {
      assert.ok(opcodes.has(opcode), `opcode ${opcode} was sent; seen: ${[...opcodes].join(', ')}`);
    }
    for (const packet of packets) {
      assert.equal(packet.readUInt16BE(4), 0, 'identification 0');
      assert.equal(packet[6] & 0x40, 0x40, 'not to be fragmented');
      const path = new IcrcPath(
        packet.subarray(12, 16),
        packet.subarray(16, 20),
        packet.readUInt16BE(20),
        packet.readUInt16BE(22),
      );
      const end = packet.length - 4;
      assert.equal(path.compute(packet, 28, end), packet.readUInt32LE(end), 'ICRC');
    }
  } finally {
    capture.kill('SIGKILL');
    one.close();
    two.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
