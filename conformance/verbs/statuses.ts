/** Every completion status that can occur, provoked: the status on both sides, the cause, no byte moved, ERR and the flush after it. */

import assert from 'node:assert/strict';
import {
  ACCESS_REMOTE_ATOMIC,
  ACCESS_REMOTE_READ,
  ACCESS_REMOTE_WRITE,
  type MemoryRegion,
  type Opcode,
  type RecvWorkRequest,
  RNR_TIMER_US,
  type SendWorkRequest,
  type Sge,
} from '../../src/verbs/index.js';
import { assertUntouched, CANARY, patternOf } from './payload.js';
import { ALL_RIGHTS, assertFailed, type Chapter, type End, needAtomics, needPrivate, type Stage, verbsError } from './stage.js';

/** Ways to spoil a local element. */
const BAD_LOCAL: readonly [string, (stage: Stage, end: End, good: MemoryRegion) => Sge][] = [
  ['a key that nobody has', (_stage, _end, good) => ({ ...good.slice(0, 64), lkey: good.lkey ^ 0x5555 })],
  ['a range beyond the end', (_stage, _end, good) => ({ ...good.slice(0, 64), addr: good.addr + good.length - 63 })],
  ['a range before the start', (_stage, _end, good) => ({ ...good.slice(0, 64), addr: good.addr - 1 })],
  ['a length beyond the end', (_stage, _end, good) => ({ ...good.slice(0, 64), length: good.length + 1 })],
  [
    'a key of another protection domain',
    (stage, end) => {
      const pd = stage.keep(end.device.allocPd());
      return stage.keepRegion(pd.register(end.device.alloc(4096), ALL_RIGHTS)).slice(0, 64);
    },
  ],
  [
    'a deregistered key',
    (_stage, end) => {
      const region = end.pd.register(end.device.alloc(4096), ALL_RIGHTS);
      const sge = region.slice(0, 64);
      region.deregister();
      return sge;
    },
  ],
];

/** Ways to spoil the remote side of a request: returns address and key, given a good region of the target. */
const BAD_REMOTE: readonly [string, (stage: Stage, two: End, good: MemoryRegion) => { remoteAddr: number; rkey: number }][] = [
  ['a key that nobody has', (_stage, _two, good) => ({ remoteAddr: good.addr, rkey: good.rkey ^ 0x5555 })],
  ['key 0', (_stage, _two, good) => ({ remoteAddr: good.addr, rkey: 0 })],
  ['key 0xffffffff', (_stage, _two, good) => ({ remoteAddr: good.addr, rkey: 0xffffffff })],
  ['a range beyond the end', (_stage, _two, good) => ({ remoteAddr: good.addr + good.length - 56, rkey: good.rkey })],
  ['a range before the start', (_stage, _two, good) => ({ remoteAddr: good.addr - 8, rkey: good.rkey })],
  ['an address far away', (_stage, _two, good) => ({ remoteAddr: good.addr + 2 ** 40, rkey: good.rkey })],
  [
    'a key of another protection domain',
    (stage, two, good) => {
      const pd = stage.keep(two.device.allocPd());
      const other = stage.keepRegion(
        pd.register(good.bytes, good.kind === 'private' ? { remoteRead: true, remoteWrite: true } : ALL_RIGHTS),
      );
      return { remoteAddr: other.addr, rkey: other.rkey };
    },
  ],
  [
    'a revoked key',
    (_stage, two, good) => {
      const rights = good.kind === 'private' ? { remoteRead: true, remoteWrite: true } : ALL_RIGHTS;
      const other = two.pd.register(good.bytes, rights);
      const remote = { remoteAddr: other.addr, rkey: other.rkey };
      other.deregister();
      return remote;
    },
  ],
];

function oneSided(opcode: Opcode, sge: Sge): SendWorkRequest {
  if (opcode.startsWith('ATOMIC')) return { opcode, sgl: [{ ...sge, length: 8 }], add: 1n, compare: 0n, swap: 1n };
  return { opcode, sgl: [sge], imm: 1 };
}

/**
 * A bad receive request: a provider that looks at posting throws VERBS_INVALID; one that looks when the message comes, as hardware does, gives
 * LOC_PROT_ERR to the receiver and REM_OP_ERR to the sender.
 */
async function refusedOrFails(one: End, two: End, request: RecvWorkRequest): Promise<void> {
  try {
    two.qp.postRecv(request);
  } catch (error) {
    verbsError('VERBS_INVALID', 0)(error);
    return;
  }
  one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(40, 1), id: 3 });
  assert.equal((await one.inbox.fail('REM_OP_ERR')).id, 3);
  assert.equal((await two.inbox.fail('LOC_PROT_ERR', 'LOC_ACCESS_ERR')).id, request.id);
  assert.equal(one.qp.state, 'ERR');
  assert.equal(two.qp.state, 'ERR');
}

export const statuses: Chapter = {
  title: 'statuses',
  register(test) {
    test('a message longer than the receive buffer: LOC_LEN_ERR there, REM_INV_REQ_ERR here, both in ERR', async (stage) => {
      const [one, two] = await stage.connected();
      const near = one.side.memory(4096);
      const far = two.side.memory(4096);
      far.bytes.fill(CANARY);
      two.qp.postRecv({ sgl: [far.slice(0, 10), far.slice(100, 5)], id: 1 });
      two.qp.postRecv({ sgl: [far.slice()], id: 2 });
      one.qp.postSend({ opcode: 'SEND', sgl: [near.slice(0, 16)], id: 3 });
      one.qp.postSend({ opcode: 'SEND', sgl: [near.slice(0, 4)], id: 4 });
      const sent = await one.inbox.fail('REM_INV_REQ_ERR');
      assert.equal(sent.id, 3);
      const received = await two.inbox.fail('LOC_LEN_ERR');
      assert.equal(received.id, 1);
      assert.equal((await one.inbox.fail('WR_FLUSH_ERR')).id, 4);
      assert.equal((await two.inbox.fail('WR_FLUSH_ERR')).id, 2);
      assert.equal(one.qp.state, 'ERR');
      assert.equal(two.qp.state, 'ERR');
      assertUntouched(far.bytes.subarray(10, 100), 'beyond the buffer');
      assertUntouched(far.bytes.subarray(105), 'beyond the buffer');
    });

    for (const [what, spoil] of BAD_LOCAL) {
      test(`LOC_PROT_ERR: ${what} in the list of a SEND, WRITE or READ`, async (stage) => {
        for (const opcode of ['SEND', 'RDMA_WRITE', 'RDMA_READ'] as const) {
          const [one, two] = await stage.connected();
          const near = one.side.memory(4096);
          const far = two.side.memory(8192);
          far.bytes.fill(CANARY);
          const good = { sgl: [near.slice(0, 64)], remoteAddr: far.addr, rkey: far.rkey };
          if (opcode === 'SEND') two.qp.postRecv({ sgl: [far.slice()] });
          one.qp.postSend([
            { opcode, ...good, sgl: [near.slice(0, 8), spoil(stage, one, near)], id: 1 },
            { opcode: 'RDMA_WRITE', ...good, id: 2 },
          ]);
          const failed = await one.inbox.fail('LOC_PROT_ERR');
          assert.equal(failed.id, 1);
          const flushed = await one.inbox.fail('WR_FLUSH_ERR');
          assert.equal(flushed.id, 2);
          assert.equal(flushed.cause?.wrId, 1, 'a flush names the request that failed first');
          assert.equal(one.qp.state, 'ERR');
          assertUntouched(far.bytes, `${opcode} with ${what}`);
          two.qp.modify('ERR');
          await stage.pump();
          two.inbox.list.length = 0;
        }
      });

      test(`a receive request with ${what} is refused at once, or is LOC_PROT_ERR when its message comes`, async (stage) => {
        const [one, two] = await stage.connected();
        const far = two.side.memory(4096);
        await refusedOrFails(one, two, { sgl: [spoil(stage, two, far)], id: 1 });
        assert.ok(
          far.bytes.every((byte) => byte === 0),
          'no byte moved',
        );
      });
    }

    test('REM_OP_ERR: the region of a receive request was deregistered; LOC_PROT_ERR for the receiver', async (stage) => {
      const [one, two] = await stage.connected();
      const buffer = two.device.alloc(4096);
      const region = two.pd.register(buffer, ALL_RIGHTS);
      two.qp.postRecv({ sgl: [region.slice()], id: 1 });
      two.qp.postRecv({ id: 2 });
      region.deregister();
      one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(40, 1), id: 3 });
      assert.equal((await one.inbox.fail('REM_OP_ERR')).id, 3);
      assert.equal((await two.inbox.fail('LOC_PROT_ERR')).id, 1);
      assert.equal((await two.inbox.fail('WR_FLUSH_ERR')).id, 2);
      assert.equal(one.qp.state, 'ERR');
      assert.equal(two.qp.state, 'ERR');
      assert.ok(
        new Uint8Array(buffer).every((byte) => byte === 0),
        'no byte moved',
      );
    });

    test('a READ or an atomic into memory without the right of local write is LOC_PROT_ERR or LOC_ACCESS_ERR', async (stage) => {
      for (const opcode of [
        'RDMA_READ',
        ...(stage.capabilities.atomics === 'none' ? [] : ['ATOMIC_FETCH_AND_ADD']),
      ] as Opcode[]) {
        const [one, two] = await stage.connected();
        const near = one.side.memory(64, { remoteRead: true });
        const far = two.side.memory(64);
        near.bytes.fill(CANARY);
        one.qp.postSend({ ...oneSided(opcode, near.slice(0, 64)), remoteAddr: far.addr, rkey: far.rkey, id: 1 });
        assert.equal((await one.inbox.fail('LOC_PROT_ERR', 'LOC_ACCESS_ERR')).id, 1);
        assertUntouched(near.bytes, opcode);
        assert.ok(
          far.bytes.every((byte) => byte === 0),
          'the target is unchanged',
        );
      }
    });

    test('a receive into memory without the right of local write is refused at once, or when its message comes', async (stage) => {
      const [one, two] = await stage.connected();
      const far = two.side.memory(64, { remoteRead: true });
      far.bytes.fill(CANARY);
      await refusedOrFails(one, two, { sgl: [far.slice()], id: 1 });
      assertUntouched(far.bytes, 'read-only memory');
    });

    const remoteCases = (kind: 'arena' | 'private'): readonly Opcode[] =>
      kind === 'arena'
        ? ['RDMA_WRITE', 'RDMA_WRITE_WITH_IMM', 'RDMA_READ', 'ATOMIC_FETCH_AND_ADD', 'ATOMIC_CMP_AND_SWP']
        : ['RDMA_WRITE', 'RDMA_READ'];
    for (const kind of ['arena', 'private'] as const) {
      for (const [what, spoil] of BAD_REMOTE) {
        test(
          `REM_ACCESS_ERR: ${what}, ${kind} memory; no byte moves, both ends go to ERR, the rest is flushed`,
          async (stage) => {
            for (const opcode of remoteCases(kind)) {
              if (opcode.startsWith('ATOMIC') && (stage.capabilities.atomics === 'none' || what === 'a range beyond the end'))
                continue;
              const [one, two] = await stage.connected();
              const near = one.side.memory(64);
              const far = two.side.memory(4096, undefined, kind);
              near.bytes.fill(CANARY);
              far.bytes.fill(CANARY);
              one.qp.postRecv({ id: 10 });
              two.qp.postRecv({ id: 11 });
              one.qp.postSend([
                { opcode: 'RDMA_READ', sgl: [near.slice(0, 1)], remoteAddr: far.addr, rkey: far.rkey, id: 1 },
                { ...oneSided(opcode, near.slice(0, 64)), ...spoil(stage, two, far), id: 2 },
                {
                  opcode: 'RDMA_WRITE',
                  inlineData: patternOf(8, 1),
                  remoteAddr: far.addr,
                  rkey: far.rkey,
                  id: 3,
                  signaled: false,
                },
                { opcode: 'SEND', id: 4 },
              ]);
              const what4 = `${opcode} with ${what}`;
              assert.equal((await one.inbox.succeed())[0].id, 1, what4);
              const failed = await one.inbox.fail('REM_ACCESS_ERR');
              assert.equal(failed.id, 2, what4);
              const rest = await one.inbox.take(3);
              for (const completion of rest) {
                assertFailed(completion, 'WR_FLUSH_ERR');
                if (completion.opcode !== 'RECV')
                  assert.equal(completion.cause?.wrId, 2, 'a flush names the request that failed first');
              }
              assert.deepEqual(
                rest.map((completion) => completion.id).sort((x, y) => x - y),
                [3, 4, 10],
                what4,
              );
              assert.equal(one.qp.state, 'ERR');
              assertUntouched(near.bytes, `${what4}, here`);
              assertUntouched(far.bytes, `${what4}, there`);
              const theirs = await two.inbox.fail('WR_FLUSH_ERR', 'LOC_ACCESS_ERR');
              assert.equal(theirs.id, 11, 'the receive request of the target comes back');
              assert.equal(two.qp.state, 'ERR', 'the target goes to ERR too');
            }
          },
          ...(kind === 'private' ? [needPrivate] : []),
        );
      }
    }

    const RIGHTS: readonly [Opcode, keyof typeof ALL_RIGHTS, number][] = [
      ['RDMA_WRITE', 'remoteWrite', ACCESS_REMOTE_WRITE],
      ['RDMA_WRITE_WITH_IMM', 'remoteWrite', ACCESS_REMOTE_WRITE],
      ['RDMA_READ', 'remoteRead', ACCESS_REMOTE_READ],
      ['ATOMIC_FETCH_AND_ADD', 'remoteAtomic', ACCESS_REMOTE_ATOMIC],
      ['ATOMIC_CMP_AND_SWP', 'remoteAtomic', ACCESS_REMOTE_ATOMIC],
    ];
    for (const [opcode, right, bit] of RIGHTS) {
      const needs = opcode.startsWith('ATOMIC') ? [needAtomics] : [];
      test(
        `REM_ACCESS_ERR: ${opcode} on a region without ${right}`,
        async (stage) => {
          const [one, two] = await stage.connected();
          const near = one.side.memory(64);
          const far = two.side.memory(64, { ...ALL_RIGHTS, [right]: false });
          near.bytes.fill(CANARY);
          far.bytes.fill(CANARY);
          one.qp.postSend({ ...oneSided(opcode, near.slice()), remoteAddr: far.addr, rkey: far.rkey, id: 1 });
          const failed = await one.inbox.fail('REM_ACCESS_ERR');
          assert.equal(failed.id, 1);
          assertUntouched(near.bytes, 'here');
          assertUntouched(far.bytes, 'there');
        },
        ...needs,
      );

      test(
        `${opcode} to a queue pair that does not allow it is refused by the target`,
        async (stage) => {
          const others = (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC) & ~bit;
          const [one, two] = await stage.connected({ attributes: [{}, { accessFlags: others }] });
          const near = one.side.memory(64);
          const far = two.side.memory(64);
          near.bytes.fill(CANARY);
          far.bytes.fill(CANARY);
          one.qp.postSend({ ...oneSided(opcode, near.slice()), remoteAddr: far.addr, rkey: far.rkey, id: 1 });
          // The specification says "invalid request"; hardware of the widest use says "access error".
          assert.equal((await one.inbox.fail('REM_ACCESS_ERR', 'REM_INV_REQ_ERR')).id, 1);
          assertUntouched(near.bytes, 'here');
          assertUntouched(far.bytes, 'there');
        },
        ...needs,
      );
    }

    test('REM_ACCESS_ERR at a part of the range: nothing of it moves', async (stage) => {
      const [one, two] = await stage.connected();
      const size = stage.scaled(3 << 20);
      const near = one.side.memory(size);
      const far = two.side.memory(size);
      far.bytes.fill(CANARY);
      one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [near.slice()], remoteAddr: far.addr + 1, rkey: far.rkey, id: 1 });
      await one.inbox.fail('REM_ACCESS_ERR');
      assertUntouched(far.bytes, 'a range that ends one byte late');
    });

    test('a WRITE of nothing checks no key', async (stage) => {
      const [one] = await stage.connected();
      one.qp.postSend({ opcode: 'RDMA_WRITE', remoteAddr: 0, rkey: 0, id: 1 });
      await one.inbox.succeed();
      one.qp.postSend({ opcode: 'RDMA_READ', remoteAddr: 0, rkey: 0, id: 2 });
      await one.inbox.succeed();
      assert.equal(one.qp.state, 'RTS');
    });

    test('REM_INV_REQ_ERR: a READ to a responder that keeps no resources for READs', async (stage) => {
      const [one, two] = await stage.connected({ attributes: [{}, { maxDestRdAtomic: 0 }] });
      const near = one.side.memory(64);
      const far = two.side.memory(64);
      near.bytes.fill(CANARY);
      one.qp.postSend({ opcode: 'RDMA_READ', sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, id: 1 });
      assert.equal((await one.inbox.fail('REM_INV_REQ_ERR')).id, 1);
      assertUntouched(near.bytes, 'refused READ');
    });

    test('RNR_RETRY_EXC_ERR after the retries that the sender asked for, each as long as the receiver asked for', async (stage) => {
      for (const [rnrRetry, minRnrTimer] of [
        [0, 18],
        [1, 18],
        [3, 18],
        [2, 20],
      ]) {
        const [one, two] = await stage.connected({ attributes: [{ rnrRetry }, { minRnrTimer }] });
        const start = stage.nowMs();
        one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(8, 1), id: 1 });
        one.qp.postSend({ opcode: 'SEND', id: 2 });
        assert.equal((await one.inbox.fail('RNR_RETRY_EXC_ERR')).id, 1);
        const took = stage.nowMs() - start;
        const least = (rnrRetry * RNR_TIMER_US[minRnrTimer]) / 1000;
        assert.ok(took >= least * 0.95, `${rnrRetry} retries of ${RNR_TIMER_US[minRnrTimer]} us took only ${took} ms`);
        assert.ok(took <= least * 4 + 1000, `${rnrRetry} retries of ${RNR_TIMER_US[minRnrTimer]} us took ${took} ms`);
        assert.equal((await one.inbox.fail('WR_FLUSH_ERR')).id, 2);
        assert.equal(one.qp.state, 'ERR');
        two.qp.postRecv({ id: 9 });
        await stage.pump();
        assert.equal(two.inbox.list.length, 0);
      }
    });

    test('rnrRetry 7 waits without end, and a receive request posted in time is used', async (stage) => {
      const [one, two] = await stage.connected({ attributes: { rnrRetry: 7, minRnrTimer: 5 } });
      const far = two.side.memory(64);
      one.qp.postSend({ opcode: 'SEND', inlineData: patternOf(8, 1), id: 1 });
      one.qp.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', imm: 4, remoteAddr: far.addr, rkey: far.rkey, id: 2 });
      await stage.elapse(50);
      assert.equal(one.inbox.list.length, 0);
      two.qp.postRecv({ sgl: [far.slice()], id: 3 });
      assert.equal((await one.inbox.succeed())[0].id, 1);
      assert.equal((await two.inbox.succeed())[0].id, 3);
      two.qp.postRecv({ id: 4 });
      assert.equal((await one.inbox.succeed())[0].id, 2);
      assert.equal((await two.inbox.succeed())[0].imm, 4);
    });

    test('a WRITE_WITH_IMM without a receive request is "receiver not ready" too', async (stage) => {
      const [one, two] = await stage.connected({ attributes: [{ rnrRetry: 1 }, { minRnrTimer: 14 }] });
      const far = two.side.memory(64);
      one.qp.postSend({ opcode: 'RDMA_WRITE_WITH_IMM', imm: 4, remoteAddr: far.addr, rkey: far.rkey, id: 1 });
      assert.equal((await one.inbox.fail('RNR_RETRY_EXC_ERR')).id, 1);
    });

    const GONE: readonly [string, (two: End) => void][] = [
      ['was closed', (two) => two.qp.close()],
      ['is in RESET', (two) => two.qp.modify('RESET')],
      ['is in ERR', (two) => two.qp.modify('ERR')],
    ];
    for (const [what, act] of GONE) {
      test(`RETRY_EXC_ERR: the queue pair of the peer ${what}`, async (stage) => {
        for (const opcode of ['SEND', 'RDMA_WRITE', 'RDMA_READ'] as const) {
          const [one, two] = await stage.connected({ attributes: { timeout: 8, retryCnt: 2, rnrRetry: 2 } });
          const near = one.side.memory(64);
          const far = two.side.memory(64);
          act(two);
          near.bytes.fill(CANARY);
          far.bytes.fill(CANARY);
          one.qp.postSend({ opcode, sgl: [near.slice()], remoteAddr: far.addr, rkey: far.rkey, id: 1 });
          const failed = await one.inbox.fail('RETRY_EXC_ERR');
          assert.equal(failed.id, 1, opcode);
          assert.equal(one.qp.state, 'ERR');
          assertUntouched(far.bytes, 'a peer that is gone');
          two.inbox.list.length = 0;
        }
      });
    }

    test('RETRY_EXC_ERR: no such queue pair at the peer', async (stage) => {
      const qp = stage.a.qp();
      const address = { ...stage.b.qp().address(), qpNum: 0xfffff0 };
      await qp.connect(address, { timeout: 8, retryCnt: 2 });
      qp.postSend({ opcode: 'SEND', id: 1 });
      assert.equal((await stage.a.inbox.fail('RETRY_EXC_ERR')).id, 1);
    });

    test('RETRY_EXC_ERR: the device of the peer was closed', async (stage) => {
      const guest = await stage.extraDevice();
      const [one, two] = [stage.a.qp(), guest.qp()];
      const far = guest.memory(64);
      await one.connect(two.address(), { timeout: 8, retryCnt: 2 });
      await two.connect(one.address());
      const remote = { remoteAddr: far.addr, rkey: far.rkey };
      stage.unwatch(guest.inbox);
      guest.device.close();
      one.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), ...remote, id: 1 });
      assert.equal((await stage.a.inbox.fail('RETRY_EXC_ERR')).id, 1);
    });

    test('a peer that connects a moment later is found by the retries', async (stage) => {
      const [one, two] = [stage.a.qp(), stage.b.qp()];
      await one.connect(two.address(), { timeout: 16, retryCnt: 7 });
      one.postSend({ opcode: 'SEND', id: 1 });
      await stage.pump();
      await two.connect(one.address());
      two.postRecv({ id: 2 });
      assert.equal((await stage.a.inbox.succeed())[0].id, 1);
      assert.equal((await stage.b.inbox.succeed())[0].id, 2);
    });

    test('only the failing queue pair suffers: others of the same device and queue go on', async (stage) => {
      const [one, two] = await stage.connected();
      const [three, four] = await stage.connected();
      const far = two.side.memory(64);
      one.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: far.addr, rkey: far.rkey ^ 0x11 });
      const failed = await one.inbox.fail('REM_ACCESS_ERR');
      assert.equal(failed.qpNum, one.qp.qpNum);
      three.qp.postSend({ opcode: 'RDMA_WRITE', inlineData: patternOf(8, 1), remoteAddr: far.addr, rkey: far.rkey });
      const [done] = await three.inbox.succeed();
      assert.equal(done.qpNum, three.qp.qpNum);
      assert.equal(four.qp.state, 'RTS');
    });

    test('an unsignaled request that fails completes with its error', async (stage) => {
      const [one, two] = await stage.connected();
      const far = two.side.memory(64);
      one.qp.postSend({
        opcode: 'RDMA_WRITE',
        inlineData: patternOf(8, 1),
        remoteAddr: far.addr,
        rkey: far.rkey ^ 1,
        signaled: false,
        id: 6,
      });
      assert.equal((await one.inbox.fail('REM_ACCESS_ERR')).id, 6);
    });

    test('the queue keeps the causes of many errors', async (stage) => {
      const [one] = await stage.connected({ init: { maxSendWr: 1024 } });
      one.qp.modify('ERR');
      for (let id = 0; id < 1000; id++) one.qp.postSend({ opcode: 'SEND', id });
      const flushed = await one.inbox.take(1000);
      for (const completion of flushed) assertFailed(completion, 'WR_FLUSH_ERR');
      assert.equal(one.inbox.cq.cause(0), undefined);
    });
  },
};
