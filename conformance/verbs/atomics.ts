/** Remote atomics: compare-and-swap and fetch-and-add on 8 aligned bytes. */

import assert from 'node:assert/strict';
import type { MemoryKind, MemoryRegion } from '../../src/verbs/index.js';
import { type Chapter, type End, needAtomics, needFiles, type Stage } from './stage.js';

const MAX = 2n ** 64n - 1n;

/** The 64-bit words of a region. */
function wordsOf(region: MemoryRegion): BigUint64Array {
  return new BigUint64Array(region.bytes.buffer, region.bytes.byteOffset, region.length >> 3);
}

interface Setup {
  one: End;
  two: End;
  near: MemoryRegion;
  far: MemoryRegion;
  result: BigUint64Array;
  target: BigUint64Array;
  add(value: bigint, word?: number): Promise<bigint>;
  swap(compare: bigint, swap: bigint, word?: number): Promise<bigint>;
}

async function setup(stage: Stage, kind: MemoryKind = 'arena'): Promise<Setup> {
  const [one, two] = await stage.connected();
  const near = one.side.memory(64);
  const far = two.side.memory(64, undefined, kind);
  const result = wordsOf(near);
  const target = wordsOf(far);
  const run = async (operands: { add: bigint } | { compare: bigint; swap: bigint }, word: number) => {
    result[1] = 0xdeadbeefn;
    one.qp.postSend({
      opcode: 'add' in operands ? 'ATOMIC_FETCH_AND_ADD' : 'ATOMIC_CMP_AND_SWP',
      sgl: [near.slice(8, 8)],
      remoteAddr: far.addr + word * 8,
      rkey: far.rkey,
      ...operands,
    });
    const [done] = await one.inbox.succeed();
    assert.equal(done.byteLen, 8);
    assert.equal(result[0], 0n);
    assert.equal(result[2], 0n);
    return result[1];
  };
  return {
    one,
    two,
    near,
    far,
    result,
    target,
    add: (value, word = 0) => run({ add: value }, word),
    swap: (compare, swap, word = 0) => run({ compare, swap }, word),
  };
}

export const atomics: Chapter = {
  title: 'atomics',
  register(test) {
    test(
      'FETCH_AND_ADD returns the old value and adds, all 64 bits, wrapping around',
      async (stage) => {
        const { target, add } = await setup(stage);
        target[3] = 5n;
        assert.equal(await add(7n, 3), 5n);
        assert.equal(target[3], 12n);
        target[0] = 2n ** 32n - 1n;
        assert.equal(await add(1n), 2n ** 32n - 1n);
        assert.equal(target[0], 2n ** 32n, 'the carry crosses 32 bits');
        target[0] = MAX;
        assert.equal(await add(3n), MAX);
        assert.equal(target[0], 2n, 'wraps');
        assert.equal(await add(MAX), 2n);
        assert.equal(target[0], 1n, 'adding 2^64 - 1 subtracts one');
        assert.equal(await add(0n), 1n);
        assert.equal(target[0], 1n);
        assert.deepEqual([...target.slice(1, 3)], [0n, 0n], 'neighbours unchanged');
      },
      needAtomics,
    );

    test(
      'negative operands are taken as their 64 bits',
      async (stage) => {
        const { target, add, swap } = await setup(stage);
        target[0] = 10n;
        await add(-3n);
        assert.equal(target[0], 7n);
        assert.equal(await swap(7n, -1n), 7n);
        assert.equal(target[0], MAX);
        assert.equal(await swap(-1n, 0n), MAX);
        assert.equal(target[0], 0n);
      },
      needAtomics,
    );

    test(
      'CMP_AND_SWP stores when the value is the expected one, and returns the old value in both cases',
      async (stage) => {
        const { target, swap } = await setup(stage);
        target[7] = 0x1122334455667788n;
        assert.equal(await swap(0x1122334455667788n, 0x99aabbccddeeff00n, 7), 0x1122334455667788n);
        assert.equal(target[7], 0x99aabbccddeeff00n);
        assert.equal(await swap(0x1122334455667788n, 1n, 7), 0x99aabbccddeeff00n, 'fails and returns what is there');
        assert.equal(target[7], 0x99aabbccddeeff00n);
        assert.equal(await swap(0x99aabbcc00000000n, 1n, 7), 0x99aabbccddeeff00n, 'the low half counts');
        assert.equal(await swap(0x00000000ddeeff00n, 1n, 7), 0x99aabbccddeeff00n, 'the high half counts');
        assert.equal(target[7], 0x99aabbccddeeff00n);
        assert.equal(target[6], 0n);
      },
      needAtomics,
    );

    test(
      'the result can be scattered, and an unsignaled atomic works too',
      async (stage) => {
        const { one, near, far, target, result } = await setup(stage);
        target[0] = 0x0102030405060708n;
        one.qp.postSend({
          opcode: 'ATOMIC_FETCH_AND_ADD',
          sgl: [near.slice(0, 3), near.slice(40, 5)],
          remoteAddr: far.addr,
          rkey: far.rkey,
          add: 1n,
          signaled: false,
        });
        one.qp.postSend({
          opcode: 'ATOMIC_FETCH_AND_ADD',
          sgl: [near.slice(8, 8)],
          remoteAddr: far.addr,
          rkey: far.rkey,
          add: 1n,
          id: 2,
        });
        assert.equal((await one.inbox.succeed())[0].id, 2);
        assert.equal(result[1], 0x0102030405060709n);
        const low = [...near.bytes.subarray(0, 3), ...near.bytes.subarray(40, 45)];
        const little = new Uint8Array(BigUint64Array.of(0x0102030405060708n).buffer);
        assert.deepEqual(low, [...little]);
      },
      needAtomics,
    );

    test(
      'many outstanding additions from both sides add up',
      async (stage) => {
        const { one, two, near, far, target } = await setup(stage);
        const count = stage.scaled(100);
        const own = two.side.memory(8);
        for (let i = 0; i < count; i++) {
          one.qp.postSend({
            opcode: 'ATOMIC_FETCH_AND_ADD',
            sgl: [near.slice(8, 8)],
            remoteAddr: far.addr,
            rkey: far.rkey,
            add: 3n,
          });
        }
        const loop = stage.b.qp();
        await loop.connect(loop.address());
        for (let i = 0; i < count; i++) {
          loop.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [own.slice()], remoteAddr: far.addr, rkey: far.rkey, add: 5n });
        }
        await one.inbox.succeed(count);
        await two.inbox.succeed(count);
        assert.equal(target[0], BigInt(count) * 8n);
      },
      needAtomics,
    );

    test(
      'atomics work against the CPU of the target where the device says so',
      async (stage) => {
        if (stage.capabilities.atomics !== 'global') stage.skip('atomics of this device are among its own requests only');
        const { one, near, far, target } = await setup(stage);
        const count = stage.scaled(100);
        for (let i = 0; i < count; i++) {
          one.qp.postSend({
            opcode: 'ATOMIC_FETCH_AND_ADD',
            sgl: [near.slice(8, 8)],
            remoteAddr: far.addr,
            rkey: far.rkey,
            add: 1n,
          });
          Atomics.add(target, 0, 1n);
        }
        await one.inbox.succeed(count);
        assert.equal(Atomics.load(target, 0), BigInt(2 * count));
      },
      needAtomics,
    );

    test(
      'a file can be the target of atomics',
      async (stage) => {
        const { target, add, swap } = await setup(stage, 'file');
        target[2] = 40n;
        assert.equal(await add(2n, 2), 40n);
        assert.equal(await swap(42n, 1n, 2), 42n);
        assert.equal(target[2], 1n);
      },
      needAtomics,
      needFiles,
    );

    test(
      'missing right, unaligned region start and a word beyond the end are refused and change nothing',
      async (stage) => {
        const memory = stage.b.memory(64, { remoteRead: true, remoteWrite: true });
        for (const fault of ['right', 'end'] as const) {
          const [one] = await stage.connected();
          const near = one.side.memory(8);
          const short = stage.keepRegion(stage.b.pd.register(memory.bytes.subarray(0, 12), { remoteAtomic: true }));
          const [addr, rkey] = fault === 'right' ? [memory.addr, memory.rkey] : [short.addr + 8, short.rkey];
          one.qp.postSend({ opcode: 'ATOMIC_FETCH_AND_ADD', sgl: [near.slice()], remoteAddr: addr, rkey, add: 1n, id: 4 });
          const failed = await one.inbox.fail('REM_ACCESS_ERR');
          assert.equal(failed.id, 4);
          assert.equal(one.qp.state, 'ERR');
          assert.ok(memory.bytes.every((byte) => byte === 0));
        }
      },
      needAtomics,
    );
  },
};
