/**
 * The requests of two Linux kernels, replayed into our responders: the answers must be the kernel's.
 *
 * Memory is given what the kernel's was, as far as the capture shows it: READ responses and atomic answers tell what stood there.
 * Answers are compared packet by packet after acknowledges that a later one covers are left out on both sides (coalescing).
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { STATUS } from '../status.js';
import { type CapturedPacket, readCapture } from './capture.test.fixture.js';
import { TransportCounters } from './host.js';
import { AtomicOp, type AtomicResult, type TransportMemory } from './memory.js';
import { Flag, OPCODE_FLAGS, Op, opcodeName, Service } from './opcode.js';
import { decodePacket, Packet } from './packet.js';
import { ALL_ACCESS, End } from './pair.test.fixture.js';
import { RcEndpoint } from './rc-endpoint.js';
import { packetCount } from './segmentation.js';
import { syndromeClass } from './syndrome.js';
import { UcEndpoint } from './uc-endpoint.js';
import { UdEndpoint } from './ud-endpoint.js';

const fixtures = new URL('../../../../test/fixtures/', import.meta.url);
const MTU = 1024;

/** A whole address space, byte by byte: any key, any address. What was never set reads as 0. */
class WideMemory implements TransportMemory {
  readonly bytes = new Map<number, number>();

  check(): boolean {
    return true;
  }

  read(_key: number, address: number, length: number, into: Uint8Array, at: number): boolean {
    for (let i = 0; i < length; i++) into[at + i] = this.bytes.get(address + i) ?? 0;
    return true;
  }

  write(_key: number, address: number, length: number, from: Uint8Array, at: number): boolean {
    for (let i = 0; i < length; i++) this.bytes.set(address + i, from[at + i]);
    return true;
  }

  atomic(
    key: number,
    address: number,
    op: number,
    swapHi: number,
    swapLo: number,
    compareHi: number,
    compareLo: number,
    result: AtomicResult,
  ): boolean {
    const b = new Uint8Array(8);
    const v = new DataView(b.buffer);
    this.read(key, address, 8, b, 0);
    const found = v.getBigUint64(0, true);
    const compare = (BigInt(compareHi) << 32n) | BigInt(compareLo);
    const swap = (BigInt(swapHi) << 32n) | BigInt(swapLo);
    result.hi = Number(found >> 32n);
    result.lo = Number(found & 0xffffffffn);
    if (op === AtomicOp.fetchAdd) v.setBigUint64(0, found + swap, true);
    else if (found === compare) v.setBigUint64(0, swap, true);
    return this.write(key, address, 8, b, 0);
  }

  invalidate(): boolean {
    return true;
  }
}

const text = (a: Uint8Array): string => [...a].join('.');

function decoded(c: CapturedPacket): Packet {
  const p = new Packet();
  decodePacket(c.bytes, c.bth, c.end, p);
  return p;
}

/** An answer as it is compared: opcode, PSN, syndrome class, MSN where it has one, original value, payload. */
function answer(p: Packet, b: Uint8Array): string {
  const parts: (string | number)[] = [opcodeName(p.opcode), p.psn];
  if (p.flags & Flag.hasAeth) parts.push(`class ${syndromeClass(p.syndrome)}`, `msn ${p.msn}`);
  if (p.flags & Flag.hasAtomicAck) parts.push(p.originalHi, p.originalLo);
  parts.push(Buffer.from(b.subarray(p.payloadAt, p.payloadAt + p.payloadLength)).toString('hex'));
  return parts.join(' ');
}

/** Leaves out what `receive` of a requester would learn from the next answer too: runs of plain acknowledges keep their last. */
function coalesced(answers: readonly string[]): string[] {
  const isAck = (a: string | undefined) => a?.startsWith('RC acknowledge') ?? false;
  return answers.filter((a, i) => !(isAck(a) && isAck(answers[i + 1])));
}

interface Conversation {
  readonly requests: CapturedPacket[];
  readonly answers: CapturedPacket[];
}

/** RC requests by destination, and the answers that went back. A queue pair number is used again by later programs: the port tells them apart. */
function conversations(packets: readonly CapturedPacket[]): Map<string, Conversation> {
  const result = new Map<string, Conversation>();
  for (const c of packets) {
    const flags = OPCODE_FLAGS[c.bytes[c.bth]];
    const isRequest = (flags & Flag.request) !== 0;
    const responder = text(isRequest ? c.destination : c.source);
    const key = `${responder} port ${c.sourcePort}`;
    const conversation = result.get(key) ?? { requests: [], answers: [] };
    result.set(key, conversation);
    (isRequest ? conversation.requests : conversation.answers).push(c);
  }
  return result;
}

for (const [name, count] of [
  ['rc_pingpong.pcap', 17],
  ['rdma_ops.pcap', 45],
] as const) {
  test(`the RC requests in ${name} get the answers that the kernel gave`, () => {
    const all = readCapture(readFileSync(new URL(name, fixtures)));
    const rc = all.filter((c) => c.bytes[c.bth] >> 5 === 0);
    let compared = 0;
    for (const [key, { requests, answers }] of conversations(rc)) {
      const memory = new WideMemory();
      const reads = requests.map(decoded).filter((p) => (p.opcode & 31) === Op.readRequest);
      for (const c of answers) {
        const p = decoded(c);
        const read = reads.find((r) => p.psn >= r.psn && p.psn < r.psn + packetCount(r.dmaLength, MTU));
        if (read && p.flags & Flag.read) {
          memory.write(0, read.remoteAddress + (p.psn - read.psn) * MTU, p.payloadLength, c.bytes, p.payloadAt);
        }
        const atomic = requests.map(decoded).find((r) => r.flags & Flag.atomic && r.psn === p.psn);
        if (atomic && p.flags & Flag.atomic) {
          const b = new Uint8Array(8);
          new DataView(b.buffer).setBigUint64(0, (BigInt(p.originalHi) << 32n) | BigInt(p.originalLo), true);
          memory.write(0, atomic.remoteAddress, 8, b, 0);
        }
      }
      const end = new End(8192, 64);
      for (let i = 0; i < 60; i++) end.postReceive(i, 0, 4096);
      const endpoint = new RcEndpoint(
        { sendQueue: end.sendQueue, receiveQueue: end.receiveQueue, memory, host: end, counters: new TransportCounters() },
        {
          destQp: answers.length > 0 ? decoded(answers[0]).destQp : 0,
          mtu: MTU,
          sendPsn: 0,
          receivePsn: decoded(requests[0]).psn,
          timeout: 14,
          retryCount: 7,
          rnrRetry: 7,
          minRnrTimer: 1,
          maxRdAtomic: 16,
          maxDestRdAtomic: 16,
          access: ALL_ACCESS,
        },
      );
      const ours: string[] = [];
      const out = new Uint8Array(8192);
      for (const c of requests) {
        endpoint.receive(decoded(c), c.bytes, 0);
        for (let n = endpoint.next(out, 0, 0); n > 0; n = endpoint.next(out, 0, 0)) {
          const p = new Packet();
          assert.equal(decodePacket(out, 0, n, p), 0);
          if (answers.length > 0) assert.equal(p.destQp, decoded(answers[0]).destQp);
          ours.push(answer(p, out));
        }
      }
      const theirs = answers.map((c) => answer(decoded(c), c.bytes));
      assert.deepEqual(coalesced(ours), coalesced(theirs), key);
      compared += answers.length;
      const sends = requests
        .map(decoded)
        .filter((p, i, list) => p.flags & Flag.consumesReceive && list.findIndex((q) => q.psn === p.psn) === i);
      assert.equal(end.received.filter((c) => c.status === STATUS.SUCCESS).length, sends.length, `${key}: messages received`);
    }
    assert.equal(compared, count, 'answers compared');
  });
}

test('the UD datagrams and UC writes of the kernel arrive with the bytes they carry', () => {
  const all = readCapture(readFileSync(new URL('rdma_ops.pcap', fixtures)));
  const of = (service: number) => all.filter((c) => (c.bytes[c.bth] & 0xe0) === service);

  const datagrams = of(Service.ud);
  const end = new End(65536, 64);
  const parts = { sendQueue: end.sendQueue, receiveQueue: end.receiveQueue, host: end, counters: end.counters };
  const ud = new UdEndpoint({ ...parts, memory: end.memory }, { qpNum: 0x18, mtu: MTU, sendPsn: 0, queueKey: 0x11111111 });
  for (const [i, c] of datagrams.entries()) {
    end.postReceive(i, i * 2048, 2048);
    const p = decoded(c);
    ud.receive(p, c.bytes);
    const payload = new Uint8Array(c.bytes.subarray(p.payloadAt, p.payloadAt + p.payloadLength));
    assert.deepEqual(end.bytes.slice(i * 2048 + 40, i * 2048 + 40 + p.payloadLength), payload);
    assert.equal(end.received[i].sourceQp, 0x18);
  }
  assert.equal(end.received.length, 5);

  const writes = of(Service.uc);
  const memory = new WideMemory();
  const settings = { destQp: 1, mtu: MTU, sendPsn: 0, receivePsn: decoded(writes[0]).psn, access: ALL_ACCESS };
  const uc = new UcEndpoint({ ...parts, memory }, settings);
  for (const c of writes) uc.receive(decoded(c), c.bytes);
  assert.equal(memory.bytes.size, 3000);
  const first = decoded(writes[0]);
  const landed = new Uint8Array(3000);
  memory.read(0, first.remoteAddress, 3000, landed, 0);
  const sent = writes.slice(0, 3).flatMap((c) => {
    const p = decoded(c);
    return [...c.bytes.subarray(p.payloadAt, p.payloadAt + p.payloadLength)];
  });
  assert.deepEqual([...landed], sent);
});
