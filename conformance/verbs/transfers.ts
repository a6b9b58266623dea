/**
 * Bytes arrive as they left: every operation that moves data, sizes from nothing to 64 MiB, odd offsets, lists on both sides,
 * inline, and every combination of memory kinds. Bytes around the target stay as they were.
 */

import assert from 'node:assert/strict';
import type { MemoryKind, MemoryRegion, SendWorkRequest } from '../../src/verbs/index.js';
import { assertBytes, assertUntouched, CANARY, fillPattern, patternOf } from './payload.js';
import { type Chapter, type End, needFiles, needPrivate, needType, type Stage } from './stage.js';

type Mover = 'SEND' | 'SEND_WITH_IMM' | 'RDMA_WRITE' | 'RDMA_WRITE_WITH_IMM' | 'RDMA_READ';
const MOVERS: readonly Mover[] = ['SEND', 'SEND_WITH_IMM', 'RDMA_WRITE', 'RDMA_WRITE_WITH_IMM', 'RDMA_READ'];
const SIZES = [0, 1, 7, 64, 4095, 1 << 20];
const MARGIN = 64;
const IMM = 0xfedcba98;

interface Move {
  opcode: Mover;
  length: number;
  /** Offsets into the region of the initiator and of the other side. */
  near: number;
  far: number;
  seed: number;
}

/** Carries out one move from end to end and checks every byte and every completion. The regions are at least MARGIN longer on both ends. */
async function moveAndCheck(one: End, two: End, near: MemoryRegion, far: MemoryRegion, move: Move): Promise<void> {
  const { opcode, length } = move;
  const reads = opcode === 'RDMA_READ';
  const [source, target] = reads ? [far, near] : [near, far];
  const [from, to] = reads ? [move.far, move.near] : [move.near, move.far];
  const what = `${opcode} of ${length} bytes from +${from} to +${to}`;
  const expected = fillPattern(source.bytes.subarray(from, from + length), move.seed);
  const window = target.bytes.subarray(to - MARGIN, to + length + MARGIN).fill(CANARY);
  const imm = opcode.endsWith('_WITH_IMM') ? IMM : undefined;
  const receives = opcode.startsWith('SEND') || imm !== undefined;
  if (receives) two.qp.postRecv({ sgl: opcode.startsWith('SEND') ? [far.slice(to, length)] : [], id: 1000 + move.seed });
  one.qp.postSend({
    opcode,
    sgl: [near.slice(reads ? to : from, length)],
    id: move.seed,
    imm,
    ...(opcode.startsWith('SEND') ? {} : { remoteAddr: far.addr + (reads ? from : to), rkey: far.rkey }),
  } as SendWorkRequest);
  const [sent] = await one.inbox.succeed();
  assert.equal(sent.id, move.seed, what);
  assert.equal(sent.opcode, opcode, what);
  assert.equal(sent.qpNum, one.qp.qpNum, what);
  if (reads) assert.equal(sent.byteLen, length, what);
  if (receives) {
    const [received] = await two.inbox.succeed();
    assert.equal(received.id, 1000 + move.seed, what);
    assert.equal(received.byteLen, length, what);
    assert.equal(received.imm, imm, what);
    assert.equal(received.opcode, opcode.startsWith('SEND') ? 'RECV' : 'RECV_RDMA_WITH_IMM', what);
    assert.equal(received.qpNum, two.qp.qpNum, what);
    assert.equal(received.grh, false, what);
  }
  assertBytes(window.subarray(MARGIN, MARGIN + length), expected, what);
  assertUntouched(window.subarray(0, MARGIN), `${what}, before the target`);
  assertUntouched(window.subarray(MARGIN + length), `${what}, after the target`);
}

async function moveAllSizes(stage: Stage, type: 'RC' | 'UC', opcode: Mover, kinds: [MemoryKind, MemoryKind], sizes: number[]) {
  const [one, two] = await stage.connected({ type });
  const room = Math.max(...sizes) + 4 * MARGIN;
  const near = one.side.memory(room, undefined, kinds[0]);
  const far = two.side.memory(room, undefined, kinds[1]);
  let seed = 1;
  for (const length of sizes) {
    for (const [nearSkew, farSkew] of [
      [0, 0],
      [1, 3],
      [5, 0],
      [0, 7],
    ]) {
      await moveAndCheck(one, two, near, far, { opcode, length, near: MARGIN + nearSkew, far: MARGIN + farSkew, seed: seed++ });
    }
  }
}

export const transfers: Chapter = {
  title: 'transfers',
  register(test) {
    for (const opcode of MOVERS) {
      test(`RC ${opcode} moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets`, async (stage) => {
        await moveAllSizes(stage, 'RC', opcode, ['arena', 'arena'], [...SIZES.slice(0, 5), stage.scaled(1 << 20)]);
      });
      if (opcode === 'RDMA_READ') continue;
      test(
        `UC ${opcode} moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets`,
        async (stage) => {
          await moveAllSizes(stage, 'UC', opcode, ['arena', 'arena'], [...SIZES.slice(0, 5), stage.scaled(1 << 20)]);
        },
        needType('UC'),
      );
    }

    for (const opcode of ['SEND', 'RDMA_WRITE', 'RDMA_READ'] as const) {
      test(`RC ${opcode} moves 64 MiB`, async (stage) => {
        await moveAllSizes(stage, 'RC', opcode, ['arena', 'arena'], [stage.scaled(64 << 20)]);
      });
    }
    for (const opcode of ['SEND', 'RDMA_WRITE', 'RDMA_READ'] as const) {
      test(
        `RC ${opcode} moves 64 MiB between ordinary ArrayBuffers`,
        async (stage) => {
          const [one, two] = await stage.connected();
          const length = stage.scaled(64 << 20);
          const near = one.side.memory(length + 4 * MARGIN, undefined, 'private');
          const far = two.side.memory(length + 4 * MARGIN, undefined, 'private');
          await moveAndCheck(one, two, near, far, { opcode, length, near: MARGIN + 1, far: MARGIN + 2, seed: 3 });
        },
        needPrivate,
      );
    }

    const KINDS: readonly MemoryKind[] = ['arena', 'private', 'file'];
    for (const near of KINDS) {
      for (const far of KINDS) {
        if (near === 'arena' && far === 'arena') continue;
        const needs = [near, far].flatMap((kind) => (kind === 'private' ? [needPrivate] : kind === 'file' ? [needFiles] : []));
        test(
          `RC moves data between ${near} memory here and ${far} memory there`,
          async (stage) => {
            const [one, two] = await stage.connected();
            const large = stage.scaled(1 << 20);
            const regions = [
              one.side.memory(large + 4 * MARGIN, undefined, near),
              two.side.memory(large + 4 * MARGIN, undefined, far),
            ];
            let seed = 1;
            for (const opcode of MOVERS) {
              for (const length of [0, 1, 63, 4095, 4097, large - 1, large]) {
                const offsets = { near: MARGIN + (seed % 8), far: MARGIN + ((seed * 3) % 8) };
                await moveAndCheck(one, two, regions[0], regions[1], { opcode, length, ...offsets, seed: seed++ });
              }
            }
          },
          ...needs,
        );
      }
    }

    test('a list is gathered at the source and scattered at the receiver, element by element', async (stage) => {
      const [one, two] = await stage.connected({ init: { maxSendSge: 8, maxRecvSge: 8 } });
      const near = one.side.memory(8192);
      const far = two.side.memory(8192);
      const cuts: [number[], number[]][] = [
        [[10], [3, 7]],
        [
          [1, 2, 3, 4, 5],
          [5, 4, 3, 2, 1],
        ],
        [
          [0, 100, 0, 50],
          [20, 0, 130],
        ],
        [
          [1000, 1, 1000, 1],
          [500, 700, 800, 2],
        ],
        [[64], [64, 64]],
      ];
      for (const [round, [sendCut, recvCut]] of cuts.entries()) {
        near.bytes.fill(0);
        far.bytes.fill(CANARY);
        const total = sendCut.reduce((sum, n) => sum + n, 0);
        const message = patternOf(total, round + 1);
        let at = 0;
        const sgl = sendCut.map((length, i) => {
          const offset = 7 + i * 1500;
          near.bytes.set(message.subarray(at, at + length), offset);
          at += length;
          return near.slice(offset, length);
        });
        const targets = recvCut.map((length, i) => ({ offset: 3 + i * 1100, length }));
        two.qp.postRecv({ sgl: targets.map(({ offset, length }) => far.slice(offset, length)) });
        one.qp.postSend({ opcode: 'SEND', sgl });
        await one.inbox.succeed();
        assert.equal((await two.inbox.succeed())[0].byteLen, total);
        at = 0;
        for (const { offset, length } of targets) {
          const n = Math.min(length, total - at);
          assertBytes(far.bytes.subarray(offset, offset + n), message.subarray(at, at + n), `round ${round} at ${offset}`);
          assertUntouched(far.bytes.subarray(offset + n, offset + length + 30), `round ${round} after ${offset}`);
          at += n;
        }
        assert.equal(at, total);
      }
    });

    test('a WRITE gathers a list into one range, a READ scatters one range into a list', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(4096);
      const far = two.side.memory(4096);
      const message = fillPattern(near.bytes, 3).slice();
      const cuts = [near.slice(1, 100), near.slice(1000, 0), near.slice(2001, 333), near.slice(500, 67)];
      const expected = Buffer.concat([message.subarray(1, 101), message.subarray(2001, 2334), message.subarray(500, 567)]);
      far.bytes.fill(CANARY);
      one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: cuts, remoteAddr: far.addr + 11, rkey: far.rkey });
      await one.inbox.succeed();
      assertBytes(far.bytes.subarray(11, 511), expected, 'gathered');
      assertUntouched(far.bytes.subarray(511), 'after the range');
      near.bytes.fill(CANARY);
      one.qp.postSend({ opcode: 'RDMA_READ', sgl: cuts, remoteAddr: far.addr + 11, rkey: far.rkey });
      assert.equal((await one.inbox.succeed())[0].byteLen, 500);
      assertBytes(near.bytes.subarray(1, 101), expected.subarray(0, 100), 'first element');
      assertBytes(near.bytes.subarray(2001, 2334), expected.subarray(100, 433), 'third element');
      assertBytes(near.bytes.subarray(500, 567), expected.subarray(433), 'fourth element');
      assertUntouched(near.bytes.subarray(101, 500), 'between the elements');
    });

    test('lists mix memory of different kinds and regions', async (stage) => {
      const [one, two] = await stage.connected();
      const near = stage.kinds.map((kind) => one.side.memory(512, undefined, kind));
      const far = stage.kinds.map((kind) => two.side.memory(512, undefined, kind));
      for (const [i, region] of near.entries()) fillPattern(region.bytes, i + 1);
      const expected = Buffer.concat(near.map((region) => region.bytes.slice(100, 300)));
      two.qp.postRecv({ sgl: far.map((region) => region.slice(50, 200)) });
      one.qp.postSend({ opcode: 'SEND', sgl: near.map((region) => region.slice(100, 200)) });
      await one.inbox.succeed();
      await two.inbox.succeed();
      const received = Buffer.concat(far.map((region) => region.bytes.slice(50, 250)));
      assertBytes(received, expected, 'mixed list');
    });

    for (const opcode of ['SEND', 'SEND_WITH_IMM', 'RDMA_WRITE', 'RDMA_WRITE_WITH_IMM'] as const) {
      test(`inline ${opcode} takes the data at once, from a list and from plain bytes`, async (stage) => {
        const [one, two] = await stage.connected({ init: { maxInline: 256 } });
        const near = one.side.memory(1024);
        const far = two.side.memory(1024);
        const twoSided = opcode.startsWith('SEND');
        const remote = twoSided ? {} : { remoteAddr: far.addr, rkey: far.rkey };
        for (const length of [0, 1, 13, 64, 255, 256]) {
          for (const plain of [false, true]) {
            const seed = length * 2 + Number(plain) + 1;
            far.bytes.fill(CANARY);
            const expected = patternOf(length, seed);
            if (twoSided || opcode.endsWith('IMM')) two.qp.postRecv({ sgl: twoSided ? [far.slice(0, 512)] : [] });
            near.bytes.set(expected, 9);
            const inlineData = patternOf(length, seed);
            const cut = length >> 1;
            const request: SendWorkRequest = plain
              ? { opcode, inlineData, imm: 5, ...remote }
              : { opcode, inline: true, sgl: [near.slice(9, cut), near.slice(9 + cut, length - cut)], imm: 5, ...remote };
            one.qp.postSend(request);
            inlineData.fill(0);
            near.bytes.fill(0);
            await one.inbox.succeed();
            if (twoSided || opcode.endsWith('IMM')) assert.equal((await two.inbox.succeed())[0].byteLen, length);
            assertBytes(far.bytes.subarray(0, length), expected, `${length} bytes ${plain ? 'plain' : 'from a list'}`);
            assertUntouched(far.bytes.subarray(length), 'after the message');
          }
        }
      });
    }

    test('an inline list needs no registration', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(64);
      const far = two.side.memory(64);
      fillPattern(near.bytes, 1);
      const expected = near.bytes.slice();
      const sge = near.slice(0, 64);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inline: true, sgl: [sge], remoteAddr: far.addr, rkey: far.rkey });
      near.deregister();
      await one.inbox.succeed();
      assertBytes(far.bytes, expected, 'inline data outlives its region');
    });

    test('a receive buffer larger than the message keeps its tail', async (stage) => {
      const [one, two] = await stage.connected();
      const far = two.side.memory(4096);
      far.bytes.fill(CANARY);
      two.qp.postRecv({ sgl: [far.slice()] });
      one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(100, 1) });
      await one.inbox.succeed();
      assert.equal((await two.inbox.succeed())[0].byteLen, 100);
      assertUntouched(far.bytes.subarray(100), 'tail');
    });

    test('both ends send at the same time', async (stage) => {
      const [one, two] = await stage.connected();
      const ends = [one, two];
      const count = stage.scaled(50);
      const memories = ends.map((end) => ({ out: end.side.memory(count * 64), into: end.side.memory(count * 64) }));
      for (const [i, end] of ends.entries()) {
        fillPattern(memories[i].out.bytes, i + 1);
        for (let id = 0; id < count; id++) end.qp.postRecv({ sgl: [memories[i].into.slice(id * 64, 64)], id });
      }
      for (let id = 0; id < count; id++) {
        for (const [i, end] of ends.entries()) end.qp.postSend({ opcode: 'SEND', sgl: [memories[i].out.slice(id * 64, 64)], id });
      }
      for (const end of ends) await end.inbox.succeed(2 * count);
      assertBytes(memories[0].into.bytes, memories[1].out.bytes, 'from two to one');
      assertBytes(memories[1].into.bytes, memories[0].out.bytes, 'from one to two');
    });

    test('a queue pair talks to another one of the same device', async ({ a }) => {
      const [one, two] = [a.qp(), a.qp()];
      await one.connect(two.address());
      await two.connect(one.address());
      const memory = a.memory(8192);
      fillPattern(memory.bytes.subarray(0, 4096), 1);
      two.postRecv({ sgl: [memory.slice(4096, 4096)] });
      one.postSend({ opcode: 'SEND', sgl: [memory.slice(0, 4096)] });
      await a.inbox.succeed(2);
      assertBytes(memory.bytes.subarray(4096), memory.bytes.subarray(0, 4096), 'own device');
    });
  },
};
