/**
 * Packets that nobody should send: real ones with bits flipped, cut, lengthened or made up, given to every kind of endpoint as if their ICRC
 * were right. Nothing may throw, loop, or write outside the registered region. VERBENA_SEED replays, VERBENA_PACKETS sets how many.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Random } from '../providers/sim/random.js';
import { readCapture } from './capture.test.fixture.js';
import { CmAgent } from './cm-agent.js';
import { DcInitiator } from './dc-initiator.js';
import { DcTarget } from './dc-target.js';
import type { TransportEndpoint } from './host.js';
import { OPCODE_FLAGS } from './opcode.js';
import { DecodeError, decodePacket, Packet } from './packet.js';
import { ALL_ACCESS, DEFAULT_SETTINGS, End } from './pair.test.fixture.js';
import { RcEndpoint } from './rc-endpoint.js';
import { RegionTable } from './region-table.js';
import { UcEndpoint } from './uc-endpoint.js';
import { UdEndpoint } from './ud-endpoint.js';

const GUARD = 4096;
const SIZE = 8192;
const MTU = 1024;

/** Memory with a guard on both sides of the one region, and a fresh endpoint of a kind over it. */
function victim(kind: number, random: Random): { endpoint: TransportEndpoint; all: Uint8Array; end: End } {
  const all = new Uint8Array(SIZE + 2 * GUARD).fill(0xee);
  const end = new End(64, 16);
  const table = new RegionTable();
  const key = table.register(1, all.subarray(GUARD, GUARD + SIZE), 0x10000, ALL_ACCESS);
  const memory = table.view(1);
  const { receiveWork: w, work } = end;
  for (let i = 0; i < 8; i++) {
    Object.assign(w, { id: i, sgeCount: 1 });
    w.sgeAddress[0] = 0x10000 + i * 1024;
    w.sgeLength[0] = 1024;
    w.sgeKey[0] = key;
    end.receiveQueue.push(w);
    Object.assign(work, { id: i, opcode: i % 7, sgeCount: 1, remoteAddress: 0x10000, remoteKey: key, destQp: 17 });
    work.sgeAddress[0] = 0x10000;
    work.sgeLength[0] = i % 7 >= 5 ? 8 : 3000;
    work.sgeKey[0] = key;
    end.sendQueue.push(work);
  }
  const parts = { sendQueue: end.sendQueue, receiveQueue: end.receiveQueue, memory, host: end, counters: end.counters };
  const psn = random.below(4);
  const settings = { ...DEFAULT_SETTINGS, mtu: MTU, sendPsn: psn, receivePsn: psn };
  const numbers = { allocate: () => 99, release: () => {} };
  const cmHost = { connectRequest() {}, established() {}, rejected() {}, disconnected() {} };
  const makers: (() => TransportEndpoint)[] = [
    () => new RcEndpoint(parts, settings),
    () => new UcEndpoint(parts, settings),
    () => new UdEndpoint(parts, { qpNum: 1, mtu: MTU, sendPsn: 0, queueKey: 0x11111111 }),
    () => new DcInitiator({ ...parts, qpNum: 16 }, settings),
    () => new DcTarget({ ...parts, qpNum: 17, numbers, dcKey: 0 }, settings),
    () => {
      const agent = new CmAgent(cmHost, 1);
      agent.listen(0x1061c06n);
      return agent;
    },
  ];
  return { endpoint: makers[kind](), all, end };
}

test('no packet, however wrong, crashes an endpoint or writes outside the region', () => {
  const only = process.env['VERBENA_SEED'];
  const count = Number(process.env['VERBENA_PACKETS'] ?? 60_000);
  const seed = Number(only ?? 1);
  const random = new Random(seed);
  const fixtures = new URL('../../../../test/fixtures/', import.meta.url);
  const originals = ['rc_pingpong.pcap', 'rdma_ops.pcap']
    .flatMap((name) => readCapture(readFileSync(new URL(name, fixtures))))
    .map((c) => c.bytes.slice(c.bth, c.end));
  const opcodes = [...OPCODE_FLAGS.keys()].filter((opcode) => OPCODE_FLAGS[opcode] !== 0);
  const p = new Packet();
  const out = new Uint8Array(8192);
  let now = 0;
  let decodable = 0;
  for (let n = 0; n < count; ) {
    const { endpoint, all, end } = victim(n % 6, random);
    for (let k = 0; k < 40; k++, n++) {
      const bytes = new Uint8Array(1400);
      const original = originals[random.below(originals.length)];
      bytes.set(original);
      let length = original.length;
      if (random.below(2) === 0) bytes[0] = opcodes[random.below(opcodes.length)];
      // PSNs near what is expected, keys and addresses near what is valid: so that packets get far.
      if (random.below(4) !== 0) bytes.set([0, 0, random.below(12)], 9);
      if (random.below(2) === 0) bytes.set([0, 0, 0, 0, 0, 1, random.below(256), 0, 0, 0, 1, 1, 0, 0, random.below(16), 0], 12);
      for (let flips = random.below(4); flips > 0; flips--) bytes[random.below(length)] ^= 1 << random.below(8);
      if (random.below(4) === 0) length = random.below(bytes.length);
      if (decodePacket(bytes, 0, length, p) !== DecodeError.ok) continue;
      decodable++;
      now += random.below(100_000);
      endpoint.receive(p, bytes, now, 0);
      if (random.below(3) === 0) endpoint.tick(now);
      for (let sent = 0; endpoint.next(out, 0, now) > 0; sent++)
        assert.ok(sent < 10_000, `seed ${seed}, packet ${n}: it never stops`);
    }
    const isClean = all.every((v, i) => v === 0xee || (i >= GUARD && i < GUARD + SIZE));
    assert.ok(isClean, `seed ${seed}: a byte outside the region was written before packet ${n}`);
    assert.ok(end.sent.length <= 8 && end.received.length <= 8, `seed ${seed}: more completions than requests`);
  }
  assert.ok(decodable > count / 3, `${decodable} of ${count} packets reached an endpoint`);
});
