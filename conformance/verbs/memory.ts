/** Memory regions: what can be registered, ranges, rights, files, indexed and strided regions, direct access. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Access, MemoryRegion } from '../../src/verbs/index.js';
import { accessBits } from '../../src/verbs/index.js';
import { assertBytes, assertUntouched, CANARY, fillPattern, patternOf } from './payload.js';
import {
  ALL_RIGHTS,
  type Chapter,
  needDirectAccess,
  needFiles,
  needOnDemand,
  needPrivate,
  needUmr,
  type Stage,
  verbsError,
} from './stage.js';

/** Bytes of a region made of parts, read through the parts. */
function gather(parts: readonly Uint8Array[]): Buffer {
  return Buffer.concat(parts.map((part) => part.slice()));
}

export const memory: Chapter = {
  title: 'memory',
  register(test) {
    test('a region knows its range, rights and kind', ({ a }) => {
      const buffer = a.device.alloc(4096);
      const region = a.pd.register(new Uint8Array(buffer, 16, 100), { remoteRead: true });
      assert.equal(region.length, 100);
      assert.equal(region.access, accessBits({ remoteRead: true }));
      assert.equal(region.kind, 'arena');
      assert.equal(region.bytes.length, 100);
      assert.ok(Number.isSafeInteger(region.addr) && region.addr > 0);
      assert.ok(Number.isInteger(region.lkey) && Number.isInteger(region.rkey));
      assert.deepEqual(region.remote(), { addr: region.addr, length: 100, rkey: region.rkey });
      new Uint8Array(buffer)[16] = 7;
      assert.equal(region.bytes[0], 7, 'bytes is the registered memory itself');
      assert.deepEqual(region.slice(), { addr: region.addr, length: 100, lkey: region.lkey });
      assert.deepEqual(region.slice(10), { addr: region.addr + 10, length: 90, lkey: region.lkey });
      assert.deepEqual(region.slice(10, 5), { addr: region.addr + 10, length: 5, lkey: region.lkey });
      assert.deepEqual(region.slice(100, 0), { addr: region.addr + 100, length: 0, lkey: region.lkey });
      for (const [offset, length] of [
        [-1, 1],
        [0, 101],
        [100, 1],
        [50, 51],
        [0.5, 1],
        [0, -1],
        [Number.NaN, 1],
      ]) {
        assert.throws(() => region.slice(offset, length), RangeError, `${offset}, ${length}`);
      }
      region.deregister();
      a.device.free(buffer);
    });

    test('the same memory can be registered more than once, each time with keys of its own', async (stage) => {
      const [one, two] = await stage.connected();
      const buffer = two.device.alloc(4096);
      const readable = stage.keepRegion(two.pd.register(buffer, { remoteRead: true }));
      const writable = stage.keepRegion(two.pd.register(buffer, { remoteWrite: true }));
      assert.notEqual(readable.rkey, writable.rkey);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(9, 1), remoteAddr: writable.addr, rkey: writable.rkey });
      await one.inbox.succeed();
      assertBytes(readable.bytes.subarray(0, 9), patternOf(9, 1), 'one memory');
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(9, 2), remoteAddr: readable.addr, rkey: readable.rkey });
      await one.inbox.fail('REM_ACCESS_ERR');
      assertBytes(readable.bytes.subarray(0, 9), patternOf(9, 1), 'unchanged');
    });

    test('typed arrays, views and parts of them can be registered', async (stage) => {
      const [one, two] = await stage.connected();
      const buffer = two.device.alloc(8192);
      for (const view of [new Float32Array(buffer, 64, 25), new DataView(buffer, 3, 50), new BigInt64Array(buffer, 128, 4)]) {
        const region = stage.keepRegion(two.pd.register(view, { remoteWrite: true }));
        assert.equal(region.length, view.byteLength);
        const expected = patternOf(view.byteLength, view.byteOffset);
        one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: expected, remoteAddr: region.addr, rkey: region.rkey });
        await one.inbox.succeed();
        assertBytes(new Uint8Array(buffer, view.byteOffset, view.byteLength), expected, 'written into the view');
      }
    });

    test('an unknown right is refused', ({ a }) => {
      const buffer = a.device.alloc(64);
      assert.throws(() => a.pd.register(buffer, { write: true } as Access), TypeError);
      a.device.free(buffer);
    });

    test(
      'ordinary memory gives every right but remote atomics',
      ({ a }) => {
        const region = a.pd.register(new ArrayBuffer(64), { localWrite: true, remoteRead: true, remoteWrite: true });
        assert.equal(region.kind, 'private');
        region.deregister();
        assert.throws(() => a.pd.register(new ArrayBuffer(64), { remoteAtomic: true }), verbsError('VERBS_UNSUPPORTED'));
      },
      needPrivate,
    );

    test(
      'detached, resizable and WebAssembly buffers are refused',
      ({ a }) => {
        const detached = new ArrayBuffer(64);
        structuredClone(detached, { transfer: [detached] });
        assert.throws(() => a.pd.register(detached), verbsError('VERBS_INVALID'), 'detached');
        const Resizable = ArrayBuffer as unknown as new (length: number, options: { maxByteLength: number }) => ArrayBuffer;
        assert.throws(() => a.pd.register(new Resizable(64, { maxByteLength: 128 })), verbsError('VERBS_INVALID'), 'resizable');
        const wasm = (
          globalThis as unknown as { WebAssembly: { Memory: new (o: { initial: number }) => { buffer: ArrayBuffer } } }
        ).WebAssembly;
        assert.throws(() => a.pd.register(new wasm.Memory({ initial: 1 }).buffer), verbsError('VERBS_INVALID'), 'WebAssembly');
        for (const nothing of [undefined, null, 5, 'memory', {}]) {
          assert.throws(() => a.pd.register(nothing as unknown as ArrayBuffer), verbsError('VERBS_INVALID'));
        }
      },
      needPrivate,
    );

    test(
      'a registered buffer cannot be transferred away',
      ({ a }) => {
        const buffer = new ArrayBuffer(64);
        const region = a.pd.register(buffer);
        try {
          structuredClone(buffer, { transfer: [buffer] });
        } catch {
          // Newer engines throw, older ones copy instead; both leave the buffer where it is.
        }
        assert.equal(buffer.byteLength, 64);
        region.deregister();
      },
      needPrivate,
    );

    test('deregistering twice is harmless, and keys are not used again at once', async (stage) => {
      const [one, two] = await stage.connected();
      const buffer = two.device.alloc(4096);
      const region = two.pd.register(buffer, ALL_RIGHTS);
      region.deregister();
      region.deregister();
      const next = stage.keepRegion(two.pd.register(buffer, ALL_RIGHTS));
      assert.notEqual(next.rkey, region.rkey);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: next.addr, rkey: region.rkey });
      await one.inbox.fail('REM_ACCESS_ERR');
      assert.ok(next.bytes.every((byte) => byte === 0));
    });

    test(
      'a file is memory: peers read it, and writes of peers reach the file',
      async (stage) => {
        const [one, two] = await stage.connected();
        const content = patternOf(10000, 5);
        const path = stage.file(content);
        const readOnly = stage.keepRegion(two.pd.register(two.device.mapFile(path), { remoteRead: true }));
        assert.equal(readOnly.kind, 'file');
        assert.equal(readOnly.length, 10000);
        const near = one.side.memory(10000);
        one.qp.postSend({ opcode: 'RDMA_READ', sgl: [near.slice()], remoteAddr: readOnly.addr, rkey: readOnly.rkey });
        await one.inbox.succeed();
        assertBytes(near.bytes, content, 'read from the file');
        const writable = stage.keepRegion(two.pd.register(two.device.mapFile(path, { writable: true }), { remoteWrite: true }));
        one.qp.postSend({
          opcode: 'RDMA_WRITE',
          inlineData: patternOf(100, 8),
          remoteAddr: writable.addr + 4090,
          rkey: writable.rkey,
        });
        await one.inbox.succeed();
        assertBytes(readFileSync(path).subarray(4090, 4190), patternOf(100, 8), 'written to the file');
      },
      needFiles,
    );

    test(
      'a part of a file can be mapped, and what cannot be mapped is refused with the path',
      (stage) => {
        const { a } = stage;
        const path = stage.file(patternOf(20000, 6));
        const part = new Uint8Array(a.device.mapFile(path, { offset: 8192, length: 500 }));
        assertBytes(part, patternOf(20000, 6).subarray(8192, 8692), 'part');
        assert.throws(
          () => a.device.mapFile(`${path}-nowhere`),
          (error: Error) => verbsError('VERBS_SYSTEM')(error) && error.message.includes(`${path}-nowhere`),
        );
        assert.throws(() => a.device.mapFile(path, { offset: 100 }), verbsError(['VERBS_INVALID', 'VERBS_SYSTEM']));
        assert.throws(() => a.device.mapFile(path, { length: 20001 }), verbsError(['VERBS_INVALID', 'VERBS_SYSTEM']));
      },
      needFiles,
    );

    test(
      'a file mapped for reading gives no right to write',
      (stage) => {
        const path = stage.file(patternOf(4096, 7));
        const file = stage.a.device.mapFile(path);
        for (const access of [{ localWrite: true }, { remoteWrite: true }, { remoteAtomic: true }]) {
          assert.throws(() => stage.a.pd.register(file, access), verbsError(['VERBS_UNSUPPORTED', 'VERBS_INVALID']));
        }
      },
      needFiles,
    );

    test(
      'on-demand memory works like other memory',
      async (stage) => {
        const [one, two] = await stage.connected();
        const buffer = two.device.alloc(stage.scaled(64 << 20), { onDemand: true });
        const region = stage.keepRegion(two.pd.register(buffer, { ...ALL_RIGHTS, onDemand: true }));
        const near = one.side.memory(8192);
        fillPattern(near.bytes, 4);
        const at = Math.min(stage.scaled(48 << 20), buffer.byteLength - 8192) + 5;
        one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [near.slice(0, 8000)], remoteAddr: region.addr + at, rkey: region.rkey });
        await one.inbox.succeed();
        assertBytes(region.bytes.subarray(at, at + 8000), near.bytes.subarray(0, 8000), 'on-demand');
      },
      needOnDemand,
    );

    const umrCase = (
      stage: Stage,
      kind: 'arena' | 'private',
    ): { parts: Uint8Array[]; region: MemoryRegion; whole: MemoryRegion[] } => {
      const whole = [stage.b.memory(4096, undefined, kind), stage.b.memory(4096, undefined, kind)];
      const cuts: [number, number, number][] = [
        [0, 100, 7],
        [1, 0, 1000],
        [0, 2000, 1],
        [1, 3000, 500],
        [0, 0, 64],
      ];
      const parts = cuts.map(([i, offset, length]) => whole[i].bytes.subarray(offset, offset + length));
      const access = kind === 'private' ? { localWrite: true, remoteRead: true, remoteWrite: true } : ALL_RIGHTS;
      const region = stage.keepRegion(
        stage.b.pd.registerIndexed(
          cuts.map(([i, offset, length]) => whole[i].slice(offset, length)),
          access,
        ),
      );
      return { parts, region, whole };
    };

    for (const kind of ['arena', 'private'] as const) {
      test(
        `an indexed region of ${kind} memory is one remote range, across the edges of its parts`,
        async (stage) => {
          const [one] = await stage.connected();
          const { parts, region, whole } = umrCase(stage, kind);
          const total = 7 + 1000 + 1 + 500 + 64;
          assert.equal(region.length, total);
          assert.equal(region.kind, 'umr');
          const near = one.side.memory(total);
          for (const [offset, length] of [
            [0, total],
            [3, 10],
            [6, 2],
            [7, 1000],
            [1000, 9],
            [1007, 1],
            [1006, 566],
            [total - 1, 1],
            [500, 0],
          ]) {
            fillPattern(near.bytes, offset + length);
            for (const w of whole) w.bytes.fill(CANARY);
            one.qp.postSend({
              opcode: 'RDMA_WRITE',
              sgl: [near.slice(0, length)],
              remoteAddr: region.addr + offset,
              rkey: region.rkey,
            });
            await one.inbox.succeed();
            const flat = gather(parts);
            assertBytes(flat.subarray(offset, offset + length), near.bytes.subarray(0, length), `write ${length} at ${offset}`);
            assertUntouched(flat.subarray(0, offset), 'before');
            assertUntouched(flat.subarray(offset + length), 'after');
            const written = whole.reduce((sum, w) => sum + w.bytes.filter((byte) => byte !== CANARY).length, 0);
            assert.ok(written <= length, 'nothing outside the parts');
            for (const [i, w] of whole.entries()) fillPattern(w.bytes, i + offset);
            const expected = gather(parts).subarray(offset, offset + length);
            one.qp.postSend({
              opcode: 'RDMA_READ',
              sgl: [near.slice(0, length)],
              remoteAddr: region.addr + offset,
              rkey: region.rkey,
            });
            assert.equal((await one.inbox.succeed())[0].byteLen, length);
            assertBytes(near.bytes.subarray(0, length), expected, `read ${length} at ${offset}`);
          }
        },
        needUmr,
        ...(kind === 'private' ? [needPrivate] : []),
      );
    }

    test(
      'a strided region is its blocks end to end',
      async (stage) => {
        const [one] = await stage.connected();
        const whole = stage.b.memory(8192);
        const layout = { region: whole, offset: 10, blockLength: 24, stride: 100, count: 50 };
        const region = stage.keepRegion(stage.b.pd.registerStrided(layout, ALL_RIGHTS));
        assert.equal(region.length, 24 * 50);
        const blocks = () => gather(Array.from({ length: 50 }, (_, i) => whole.bytes.subarray(10 + i * 100, 34 + i * 100)));
        const near = one.side.memory(1200);
        for (const [offset, length] of [
          [0, 1200],
          [0, 24],
          [23, 2],
          [5, 700],
          [1199, 1],
          [24, 24],
        ]) {
          fillPattern(near.bytes, offset * 7 + length);
          whole.bytes.fill(CANARY);
          one.qp.postSend({
            opcode: 'RDMA_WRITE',
            sgl: [near.slice(0, length)],
            remoteAddr: region.addr + offset,
            rkey: region.rkey,
          });
          await one.inbox.succeed();
          assertBytes(blocks().subarray(offset, offset + length), near.bytes.subarray(0, length), `write ${length} at ${offset}`);
          const between = whole.bytes.filter((_, i) => i < 10 || (i - 10) % 100 >= 24 || i >= 10 + 50 * 100);
          assertUntouched(between, 'between the blocks');
          fillPattern(whole.bytes, offset + 1);
          const expected = blocks().subarray(offset, offset + length);
          one.qp.postSend({
            opcode: 'RDMA_READ',
            sgl: [near.slice(0, length)],
            remoteAddr: region.addr + offset,
            rkey: region.rkey,
          });
          await one.inbox.succeed();
          assertBytes(near.bytes.subarray(0, length), expected, `read ${length} at ${offset}`);
        }
      },
      needUmr,
    );

    test(
      'an indexed region serves as local memory: sent from, received into, read into',
      async (stage) => {
        const [one, two] = await stage.connected();
        const { parts, region, whole } = umrCase(stage, 'arena');
        const near = one.side.memory(region.length);
        fillPattern(near.bytes, 2);
        two.qp.postRecv({ sgl: [region.slice()] });
        one.qp.postSend({ opcode: 'SEND', sgl: [near.slice()] });
        await one.inbox.succeed();
        await two.inbox.succeed();
        assertBytes(gather(parts), near.bytes, 'received into');
        for (const [i, w] of whole.entries()) fillPattern(w.bytes, i + 9);
        one.qp.postRecv({ sgl: [near.slice()] });
        two.qp.postSend({ opcode: 'SEND', sgl: [region.slice()] });
        await two.inbox.succeed();
        await one.inbox.succeed();
        assertBytes(near.bytes, gather(parts), 'sent from');
        fillPattern(near.bytes, 3);
        two.qp.postSend({ opcode: 'RDMA_READ', sgl: [region.slice(5, 1200)], remoteAddr: near.addr, rkey: near.rkey });
        await two.inbox.succeed();
        assertBytes(gather(parts).subarray(5, 1205), near.bytes.subarray(0, 1200), 'read into');
      },
      needUmr,
    );

    test(
      'an indexed region has limits: 64 parts, memory of its domain, rights its parts have',
      (stage) => {
        const { a, b } = stage;
        const region = a.memory(4096, { remoteRead: true });
        const parts = Array.from({ length: 65 }, (_, i) => region.slice(i, 1));
        assert.throws(() => a.pd.registerIndexed(parts, { remoteRead: true }), verbsError('VERBS_INVALID'));
        assert.throws(() => a.pd.registerIndexed([], { remoteRead: true }), verbsError('VERBS_INVALID'));
        const foreign = b.memory(64).slice();
        assert.throws(() => a.pd.registerIndexed([foreign]), verbsError('VERBS_INVALID'), 'key of another domain');
        const outside = { ...region.slice(), length: 5000 };
        assert.throws(() => a.pd.registerIndexed([outside]), verbsError('VERBS_INVALID'), 'range outside');
        assert.throws(
          () => a.pd.registerIndexed([region.slice()], { remoteWrite: true }),
          verbsError(['VERBS_INVALID', 'VERBS_UNSUPPORTED']),
          'a right the part does not have',
        );
        const layout = { region, blockLength: 16, stride: 32, count: 4 };
        assert.throws(() => a.pd.registerStrided({ ...layout, stride: 8 }), verbsError('VERBS_INVALID'));
        assert.throws(() => a.pd.registerStrided({ ...layout, count: 200 }), verbsError('VERBS_INVALID'));
        assert.throws(() => a.pd.registerStrided({ ...layout, blockLength: 0 }), verbsError('VERBS_INVALID'));
      },
      needUmr,
    );

    test(
      'an indexed region has its own key: revoking it, or a part of it, ends access',
      async (stage) => {
        const [one, two] = await stage.connected();
        const buffer = two.device.alloc(4096);
        const base = two.pd.register(buffer, ALL_RIGHTS);
        const umr = two.pd.registerIndexed([base.slice(0, 100), base.slice(1000, 100)], ALL_RIGHTS);
        const write = () =>
          one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(150, 1), remoteAddr: umr.addr, rkey: umr.rkey });
        write();
        await one.inbox.succeed();
        umr.deregister();
        base.bytes.fill(CANARY);
        write();
        await one.inbox.fail('REM_ACCESS_ERR');
        assertUntouched(base.bytes, 'after the key was revoked');
        base.deregister();
      },
      needUmr,
    );

    test(
      'direct access shows the memory of the peer itself',
      async (stage) => {
        const [one, two] = await stage.connected();
        const far = two.side.memory(4096);
        const seen = one.device.directAccess(two.qp.address(), far.remote());
        assert.equal(seen.length, far.length);
        far.bytes[100] = 7;
        assert.equal(seen[100], 7);
        seen[4095] = 9;
        assert.equal(far.bytes[4095], 9);
      },
      needDirectAccess,
    );

    test(
      'direct access to ordinary memory, or with a wrong key, is refused',
      async (stage) => {
        const [one, two] = await stage.connected();
        const far = two.side.memory(64, undefined, 'private');
        assert.throws(() => one.device.directAccess(two.qp.address(), far.remote()), verbsError('VERBS_UNSUPPORTED'));
        const arena = two.side.memory(64).remote();
        assert.throws(
          () => one.device.directAccess(two.qp.address(), { ...arena, rkey: arena.rkey ^ 99 }),
          verbsError(['VERBS_INVALID', 'VERBS_ILLEGAL', 'VERBS_REFUSED', 'VERBS_UNSUPPORTED']),
        );
      },
      needDirectAccess,
      needPrivate,
    );
  },
};
