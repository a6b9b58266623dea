/** Devices, protection domains, queues: how they are made, what they refuse, when they can be closed, what they count. */

import assert from 'node:assert/strict';
import { isIPv6 } from 'node:net';
import type { CqInit, QpInit, QpType, SrqInit } from '../../src/verbs/index.js';
import { PATH_MTUS, QP_TYPES, WorkCompletions } from '../../src/verbs/index.js';
import { type Chapter, needSrq, verbsError } from './stage.js';

export const objects: Chapter = {
  title: 'objects',
  register(test) {
    test('a device says who it is and what it can do', ({ a, b }) => {
      const { capabilities } = a.device;
      assert.ok(a.device.provider.length > 0);
      assert.ok(a.device.name.length > 0);
      assert.ok(isIPv6(a.device.gid), `gid '${a.device.gid}' is an IPv6 address`);
      assert.ok(capabilities.qpTypes.includes('RC'), 'every provider has RC');
      assert.ok(PATH_MTUS.includes(capabilities.mtu), `mtu ${capabilities.mtu} is a path MTU`);
      assert.ok(capabilities.maxInline >= 0);
      assert.ok(capabilities.maxSge >= 1);
      assert.ok(capabilities.maxMessage >= 2 ** 30, `maxMessage ${capabilities.maxMessage}`);
      assert.ok(capabilities.maxQpWr >= 128);
      assert.equal(capabilities.dc, capabilities.qpTypes.includes('DCI') && capabilities.qpTypes.includes('DCT'));
      assert.deepEqual(a.device.capabilities, b.device.capabilities, 'two devices of one provider can do the same');
    });

    test('a queue pair has a number of its own and an address that survives JSON', ({ a, b }) => {
      const pairs = [a.qp(), a.qp(), b.qp(), b.qp()];
      for (const qp of pairs) {
        assert.ok(
          Number.isInteger(qp.qpNum) && qp.qpNum > 1 && qp.qpNum < 0xffffff,
          `${qp.qpNum} is a number that a queue pair can have: 0, 1 and 0xffffff are reserved`,
        );
        const address = qp.address();
        assert.deepEqual(JSON.parse(JSON.stringify(address)), address);
        assert.equal(address.v, 1);
        assert.equal(address.qpNum, qp.qpNum);
        assert.equal(address.type, 'RC');
        assert.equal(address.provider, a.device.provider);
        assert.ok(address.psn >= 0 && address.psn < 2 ** 24);
      }
      assert.notEqual(pairs[0].qpNum, pairs[1].qpNum);
      assert.notEqual(pairs[2].qpNum, pairs[3].qpNum);
      assert.notDeepEqual(pairs[0].address(), pairs[2].address());
    });

    test('a queue pair has the sizes it was made with', ({ a }) => {
      const qp = a.qp({ maxSendWr: 32, maxRecvWr: 16, maxSendSge: 2, maxRecvSge: 1, maxInline: 0, sqSigAll: true });
      assert.ok(qp.maxSendWr >= 32 && qp.maxRecvWr >= 16 && qp.maxSendSge >= 2 && qp.maxRecvSge >= 1);
      assert.equal(qp.sqSigAll, true);
      assert.equal(qp.state, 'RESET');
      assert.equal(qp.type, 'RC');
      assert.equal(qp.sendCq, a.inbox.cq);
    });

    const BAD_QP: readonly [string, Partial<QpInit>][] = [
      ['maxSendWr 0', { maxSendWr: 0 }],
      ['maxSendWr 65537', { maxSendWr: 65537 }],
      ['maxRecvWr 0', { maxRecvWr: 0 }],
      ['maxRecvWr 1.5', { maxRecvWr: 1.5 }],
      ['maxSendSge 65', { maxSendSge: 65 }],
      ['maxRecvSge 0', { maxRecvSge: 0 }],
      ['maxInline -1', { maxInline: -1 }],
      ['maxInline 4097', { maxInline: 4097 }],
      ['an unknown option', { sendDepth: 8 } as Partial<QpInit>],
      ['an unknown type', { type: 'XRC' as QpType }],
    ];
    for (const [what, init] of BAD_QP) {
      test(`createQp refuses ${what}`, ({ a }) => {
        const cq = a.cq();
        assert.throws(
          () => a.pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq, ...init }),
          verbsError(['VERBS_INVALID', 'VERBS_UNSUPPORTED']),
        );
      });
    }

    test('a queue pair type that the device lacks is VERBS_UNSUPPORTED', (stage) => {
      const absent = QP_TYPES.find((type) => !stage.capabilities.qpTypes.includes(type));
      if (absent === undefined) return stage.skip('the device has every type');
      const { a } = stage;
      const cq = a.cq();
      assert.throws(
        () => a.pd.createQp({ type: absent, sendCq: cq, recvCq: cq, ...(absent === 'DCT' ? { srq: a.srq() } : {}) }),
        verbsError('VERBS_UNSUPPORTED'),
      );
    });

    const BAD_CQ: readonly [string, CqInit][] = [
      ['depth 0', { depth: 0 }],
      ['depth 1048577', { depth: 1048577 }],
      ['depth 1.5', { depth: 1.5 }],
      ['an unknown mode', { mode: 'busy' as 'poll' }],
      ['spinUs -1', { spinUs: -1 }],
      ['spinUs 10001', { spinUs: 10001 }],
      ['an unknown option', { size: 8 } as CqInit],
    ];
    for (const [what, init] of BAD_CQ) {
      test(`createCq refuses ${what}`, ({ a }) => {
        assert.throws(() => a.device.createCq(init), verbsError('VERBS_INVALID'));
      });
    }

    const BAD_SRQ: readonly [string, SrqInit][] = [
      ['maxWr 0', { maxWr: 0 }],
      ['maxWr 65537', { maxWr: 65537 }],
      ['maxSge 0', { maxSge: 0 }],
      ['maxSge 65', { maxSge: 65 }],
      ['limit -1', { limit: -1 }],
      ['an unknown option', { depth: 8 } as SrqInit],
    ];
    for (const [what, init] of BAD_SRQ) {
      test(
        `createSrq refuses ${what}`,
        ({ a }) => {
          assert.throws(() => a.pd.createSrq(init), verbsError('VERBS_INVALID'));
        },
        needSrq,
      );
    }

    test('a protection domain cannot be closed while a region or a queue of it is alive', (stage) => {
      const { a } = stage;
      const pd = a.device.allocPd();
      const cq = a.cq();
      const memory = a.device.alloc(4096);
      const region = pd.register(memory);
      assert.throws(() => pd.close(), verbsError('VERBS_BUSY'));
      region.deregister();
      const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
      assert.throws(() => pd.close(), verbsError('VERBS_BUSY'));
      qp.close();
      if (stage.capabilities.srq) {
        const srq = pd.createSrq();
        assert.throws(() => pd.close(), verbsError('VERBS_BUSY'));
        srq.close();
      }
      pd.close();
      a.device.free(memory);
      assert.throws(() => pd.register(a.device.alloc(64)), verbsError('VERBS_CLOSED'));
    });

    test('a completion queue cannot be closed while a queue pair uses it, on either side', ({ a }) => {
      const cqs = [a.device.createCq(), a.device.createCq()];
      const qp = a.pd.createQp({ type: 'RC', sendCq: cqs[0], recvCq: cqs[1] });
      for (const cq of cqs) assert.throws(() => cq.close(), verbsError('VERBS_BUSY'));
      qp.close();
      for (const cq of cqs) cq.close();
      assert.throws(() => cqs[0].poll(new WorkCompletions(1)), verbsError('VERBS_CLOSED'));
    });

    test(
      'a shared receive queue cannot be closed while a queue pair uses it',
      ({ a }) => {
        const srq = a.pd.createSrq();
        const cq = a.cq();
        const qp = a.pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq, srq });
        assert.throws(() => srq.close(), verbsError('VERBS_BUSY'));
        qp.close();
        srq.close();
      },
      needSrq,
    );

    test('memory of the device cannot be freed while it is registered', ({ a }) => {
      const memory = a.device.alloc(4096);
      const region = a.pd.register(memory);
      assert.throws(() => a.device.free(memory), verbsError('VERBS_BUSY'));
      region.deregister();
      a.device.free(memory);
    });

    test('alloc gives zeroed memory of the asked length, and refuses lengths that are none', ({ a }) => {
      for (const length of [1, 4095, 4096, 1 << 20]) {
        const memory = a.device.alloc(length);
        assert.equal(memory.byteLength, length);
        assert.ok(new Uint8Array(memory).every((byte) => byte === 0));
        new Uint8Array(memory).fill(1);
        a.device.free(memory);
      }
      const again = a.device.alloc(1 << 20);
      assert.ok(
        new Uint8Array(again).every((byte) => byte === 0),
        'zeroed also when the memory was used before',
      );
      a.device.free(again);
      for (const length of [-1, 0, 1.5, Number.NaN]) assert.throws(() => a.device.alloc(length), verbsError('VERBS_INVALID'));
    });

    test('alloc of more than there is fails at once', ({ a }) => {
      assert.throws(() => a.device.alloc(2 ** 45), verbsError(['VERBS_NO_MEMORY', 'VERBS_INVALID']));
    });

    test('closing twice is harmless, for every object', (stage) => {
      const { a } = stage;
      const pd = a.device.allocPd();
      const cq = a.device.createCq();
      const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
      const region = pd.register(a.device.alloc(64));
      const ah = pd.createAh(stage.b.qp().address().av);
      for (let i = 0; i < 2; i++) {
        ah.close();
        region.deregister();
        qp.close();
        cq.close();
        pd.close();
      }
    });

    test('a closed queue pair refuses everything', ({ a }) => {
      const qp = a.qp();
      qp.close();
      assert.throws(() => qp.postRecv({}), verbsError('VERBS_CLOSED'));
      assert.throws(() => qp.postSend({ opcode: 'SEND' }), verbsError('VERBS_CLOSED'));
      assert.throws(() => qp.modify('INIT', { pkeyIndex: 0, port: 1, accessFlags: 0 }), verbsError('VERBS_CLOSED'));
    });

    test('closing a device closes everything that came from it', async (stage) => {
      const device = await stage.factory.open();
      const pd = device.allocPd();
      const cq = device.createCq();
      const qp = pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq });
      pd.register(device.alloc(4096), { remoteRead: true });
      const waiting = assert.rejects(cq.next(), verbsError('VERBS_CLOSED'));
      await stage.pump();
      device.close();
      device.close();
      await stage.settle(waiting);
      assert.throws(() => device.allocPd(), verbsError('VERBS_CLOSED'));
      assert.throws(() => device.createCq(), verbsError('VERBS_CLOSED'));
      assert.throws(() => device.alloc(64), verbsError('VERBS_CLOSED'));
      assert.throws(() => pd.createQp({ type: 'RC', sendCq: cq, recvCq: cq }), verbsError('VERBS_CLOSED'));
      assert.throws(() => cq.poll(new WorkCompletions(1)), verbsError('VERBS_CLOSED'));
      assert.throws(() => qp.postRecv({}), verbsError('VERBS_CLOSED'));
    });

    test('an open device takes no options that it does not know', async (stage) => {
      await assert.rejects(stage.factory.open({ nmae: 'x' } as object), verbsError('VERBS_INVALID'));
    });

    test('counters count operations, bytes, copies and errors', async (stage) => {
      const [one, two] = await stage.connected();
      const source = one.side.memory(4096);
      const target = two.side.memory(4096);
      const before = one.device.counters();
      const count = 10;
      for (let i = 0; i < count; i++) {
        one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [source.slice(0, 100)], remoteAddr: target.addr, rkey: target.rkey });
      }
      await one.inbox.succeed(count);
      const after = one.device.counters();
      assert.equal(after.operations - before.operations, count);
      assert.equal(after.bytes - before.bytes, count * 100);
      assert.equal(after.errors, before.errors);
      assert.ok(after.bytesCopied >= before.bytesCopied);
      assert.ok(after.systemCalls >= before.systemCalls);
      one.qp.postSend({ opcode: 'RDMA_WRITE', sgl: [source.slice(0, 8)], remoteAddr: target.addr, rkey: target.rkey ^ 0x5a5a });
      await one.inbox.fail('REM_ACCESS_ERR');
      assert.ok(one.device.counters().errors > after.errors, 'an error is counted');
      one.qp.close();
      assert.ok(one.device.counters().operations >= after.operations, 'totals survive the queue pair');
    });
  },
};
