/** UD: datagrams of one MTU to any peer, the route header, Q_Keys, silent loss, multicast. */

import assert from 'node:assert/strict';
import type { AddressHandle, QueuePair, SendWorkRequest } from '../../src/verbs/index.js';
import { VerbsError } from '../../src/verbs/index.js';
import { assertBytes, assertUntouched, CANARY, fillPattern, patternOf } from './payload.js';
import { assertFailed, type Chapter, needMulticast, needType, type Side, type Stage, verbsError } from './stage.js';

const QKEY = 0x1234;
/** Bytes of the global route header in front of every received datagram. */
const GRH = 40;

async function ud(side: Side, qkey = QKEY, init = {}): Promise<QueuePair> {
  const qp = side.qp({ type: 'UD', ...init });
  await qp.connect(undefined, { qkey });
  return qp;
}

function to(
  stage: Stage,
  side: Side,
  peer: QueuePair,
  qkey = QKEY,
): { ah: AddressHandle; remoteQpn: number; remoteQkey: number } {
  return { ah: stage.keep(side.pd.createAh(peer.address().av)), remoteQpn: peer.qpNum, remoteQkey: qkey };
}

export const datagrams: Chapter = {
  title: 'datagrams',
  register(test) {
    const needs = [needType('UD')];

    test(
      'a datagram arrives behind 40 bytes of route header, with its source',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        const far = b.memory(8192);
        const near = a.memory(8192);
        const mtu = stage.capabilities.mtu;
        for (const [round, length] of [0, 1, 7, 64, 255, mtu].entries()) {
          far.bytes.fill(CANARY);
          two.postRecv({ sgl: [far.slice(0, GRH + length)], id: round });
          fillPattern(near.bytes, round + 1);
          one.postSend({ opcode: 'SEND', sgl: [near.slice(3, length)], ...to(stage, a, two) });
          await a.inbox.succeed();
          const [received] = await b.inbox.succeed();
          assert.equal(received.id, round);
          assert.equal(received.opcode, 'RECV');
          assert.equal(received.byteLen, GRH + length, 'the length counts the header, as in libibverbs');
          assert.equal(received.grh, true);
          assert.equal(received.srcQp, one.qpNum);
          assert.equal(received.imm, undefined);
          assertBytes(far.bytes.subarray(GRH, GRH + length), near.bytes.subarray(3, 3 + length), `${length} bytes`);
          assertUntouched(far.bytes.subarray(GRH + length), 'after the datagram');
        }
      },
      ...needs,
    );

    test(
      'the source in the completion and the header are enough to answer',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        const far = b.memory(256);
        two.postRecv({ sgl: [far.slice()] });
        one.postSend({ opcode: 'SEND_WITH_IMM', inlineData: patternOf(5, 1), imm: 0xffffffff, ...to(stage, a, two) });
        await a.inbox.succeed();
        const [received] = await b.inbox.succeed();
        assert.equal(received.imm, 0xffffffff);
        const near = a.memory(256);
        one.postRecv({ sgl: [near.slice()] });
        const ah = stage.keep(b.pd.createAh(one.address().av));
        two.postSend({ opcode: 'SEND', inlineData: patternOf(6, 2), ah, remoteQpn: received.srcQp, remoteQkey: QKEY });
        await b.inbox.succeed();
        assert.equal((await a.inbox.succeed())[0].srcQp, two.qpNum);
        assertBytes(near.bytes.subarray(GRH, GRH + 6), patternOf(6, 2), 'answer');
      },
      ...needs,
    );

    test(
      'a datagram with another Q_Key is dropped without a word',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        two.postRecv({ sgl: [b.memory(128).slice()], id: 1 });
        one.postSend({ opcode: 'SEND', inlineData: patternOf(5, 1), ...to(stage, a, two, QKEY + 1), id: 2 });
        await a.inbox.succeed();
        await stage.elapse(10);
        assert.equal(b.inbox.list.length, 0);
        assert.equal(two.state, 'RTS');
        one.postSend({ opcode: 'SEND', inlineData: patternOf(5, 1), ...to(stage, a, two), id: 3 });
        await a.inbox.succeed();
        assert.equal((await b.inbox.succeed())[0].id, 1, 'the receive request was not used up');
      },
      ...needs,
    );

    test(
      'a datagram without a receive request, or to nobody, is lost and the sender does not learn it',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        one.postSend({ opcode: 'SEND', inlineData: patternOf(5, 1), ...to(stage, a, two), id: 1 });
        one.postSend({ opcode: 'SEND', inlineData: patternOf(5, 1), ...to(stage, a, two), remoteQpn: 0xabcdef, id: 2 });
        await a.inbox.succeed(2);
        two.postRecv({ sgl: [b.memory(128).slice()] });
        await stage.elapse(10);
        assert.equal(b.inbox.list.length, 0, 'not delivered later');
        assert.equal(one.state, 'RTS');
      },
      ...needs,
    );

    test(
      'a message of more than one MTU is refused, at once or by LOC_LEN_ERR',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        const near = a.memory(8192);
        const request: SendWorkRequest = {
          opcode: 'SEND',
          sgl: [near.slice(0, stage.capabilities.mtu + 1)],
          ...to(stage, a, two),
          id: 5,
        };
        try {
          one.postSend(request);
        } catch (error) {
          assert.ok(VerbsError.is(error) && error.code === 'VERBS_INVALID', String(error));
          return;
        }
        assert.equal((await a.inbox.fail('LOC_LEN_ERR')).id, 5);
        await stage.elapse(5);
        assert.equal(b.inbox.list.length, 0);
      },
      ...needs,
    );

    test(
      'many senders reach one queue pair; nothing is lost while requests are there, and order holds per sender',
      async (stage) => {
        const { a, b } = stage;
        const receiver = await ud(b, QKEY, { maxRecvWr: 512 });
        const far = b.memory(256 * 64);
        const sources = [];
        for (let i = 0; i < 8; i++) {
          const side = i % 2 === 0 ? a : b;
          sources.push({ side, qp: await ud(side), destination: to(stage, side, receiver) });
        }
        const each = 25;
        for (let id = 0; id < 8 * each; id++) receiver.postRecv({ sgl: [far.slice(id * 64, 64)], id });
        for (let i = 0; i < each; i++) {
          for (const { qp, destination } of sources) {
            qp.postSend({ opcode: 'SEND_WITH_IMM', inlineData: patternOf(24, qp.qpNum + i), imm: i, ...destination });
          }
        }
        await a.inbox.succeed(4 * each);
        const mixed = await b.inbox.succeed(4 * each + 8 * each);
        const received = mixed.filter((completion) => completion.opcode === 'RECV');
        assert.equal(received.length, 8 * each);
        const bySource = sources.map(({ side, qp }) => ({ side, qp, seen: [] as number[] }));
        for (const completion of received) {
          const data = far.bytes.subarray(completion.id * 64 + GRH, completion.id * 64 + 64);
          const source = bySource.find(
            ({ qp }) =>
              qp.qpNum === completion.srcQp && Buffer.compare(data, patternOf(24, qp.qpNum + (completion.imm ?? 0))) === 0,
          );
          assert.ok(source, `a datagram of QP ${completion.srcQp} is intact`);
          source.seen.push(completion.imm ?? -1);
        }
        const total = bySource.reduce((sum, { seen }) => sum + seen.length, 0);
        assert.equal(total, 8 * each);
      },
      ...needs,
    );

    test(
      'one queue pair talks to many peers',
      async (stage) => {
        const { a, b } = stage;
        const one = await ud(a);
        const peers = await Promise.all(Array.from({ length: 10 }, () => ud(b)));
        const far = b.memory(10 * 128);
        for (const [i, peer] of peers.entries()) peer.postRecv({ sgl: [far.slice(i * 128, 128)], id: i });
        for (const [i, peer] of peers.entries()) {
          one.postSend({ opcode: 'SEND', inlineData: patternOf(50, i), ...to(stage, a, peer) });
        }
        await a.inbox.succeed(10);
        await b.inbox.succeed(10);
        for (const [i] of peers.entries()) {
          assertBytes(far.bytes.subarray(i * 128 + GRH, i * 128 + GRH + 50), patternOf(50, i), `peer ${i}`);
        }
      },
      ...needs,
    );

    test(
      'the prepared form sends datagrams too',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        const near = a.memory(256);
        const far = b.memory(256);
        fillPattern(near.bytes, 8);
        two.postRecv({ sgl: [far.slice()] });
        one.prepare({ opcode: 'SEND', local: near, ...to(stage, a, two) }).post(10, 100, 4);
        assert.equal((await a.inbox.succeed())[0].id, 4);
        await b.inbox.succeed();
        assertBytes(far.bytes.subarray(GRH, GRH + 100), near.bytes.subarray(10, 110), 'prepared datagram');
      },
      ...needs,
    );

    test(
      'a failed send stops the send queue alone: SQE, later sends flush, receives go on, RTS resumes',
      async (stage) => {
        const { a, b } = stage;
        const [one, two] = [await ud(a), await ud(b)];
        const near = a.memory(256);
        const there = to(stage, a, two);
        one.postSend({ opcode: 'SEND', sgl: [{ ...near.slice(0, 8), lkey: near.lkey ^ 0x777 }], ...there, id: 1 });
        assert.equal((await a.inbox.fail('LOC_PROT_ERR')).id, 1);
        assert.equal(one.state, 'SQE');
        one.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...there, id: 2 });
        assertFailed(await a.inbox.one(), 'WR_FLUSH_ERR');
        one.postRecv({ sgl: [near.slice()], id: 3 });
        two.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...to(stage, b, one) });
        await b.inbox.succeed();
        assert.equal((await a.inbox.succeed())[0].id, 3);
        one.modify('RTS');
        two.postRecv({ sgl: [b.memory(128).slice()] });
        one.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...there, id: 4 });
        assert.equal((await a.inbox.succeed())[0].id, 4);
        await b.inbox.succeed();
      },
      ...needs,
    );

    test(
      'an address handle that is none is refused',
      (stage) => {
        const { pd } = stage.a;
        assert.throws(() => pd.createAh({ gid: 'nonsense' }), verbsError('VERBS_INVALID'));
        assert.throws(() => pd.createAh({} as { gid: string }), verbsError('VERBS_INVALID'));
      },
      ...needs,
    );

    const multicast = [...needs, needMulticast];
    const group = `ff0e::${(process.pid & 0xffff).toString(16)}:1`;
    const toGroup = (stage: Stage, side: Side, gid = group) => ({
      ah: stage.keep(side.pd.createAh({ gid })),
      remoteQpn: 0xffffff,
      remoteQkey: QKEY,
    });

    test(
      'a multicast datagram reaches every member of the group once, on every device, and nobody else',
      async (stage) => {
        const { a, b } = stage;
        const sender = await ud(a);
        const members = [await ud(a), await ud(b), await ud(b), await ud(b)];
        const outsider = await ud(b);
        const sides = [a, b, b, b];
        const regions = sides.map((side) => side.memory(256));
        for (const [i, member] of members.entries()) {
          member.attachMulticast(group);
          for (let k = 0; k < 3; k++) member.postRecv({ sgl: [regions[i].slice()], id: 10 * i + k });
        }
        outsider.postRecv({ sgl: [b.memory(128).slice()], id: 99 });
        sender.postSend({ opcode: 'SEND_WITH_IMM', inlineData: patternOf(20, 5), imm: 6, ...toGroup(stage, a), id: 50 });
        const here = await a.inbox.succeed(2);
        const there = await b.inbox.succeed(3);
        const received = [...here, ...there].filter((completion) => completion.opcode === 'RECV');
        assert.deepEqual(
          received.map((completion) => completion.id).sort((x, y) => x - y),
          [0, 10, 20, 30],
        );
        for (const completion of received) {
          assert.equal(completion.byteLen, GRH + 20);
          assert.equal(completion.imm, 6);
          assert.equal(completion.srcQp, sender.qpNum);
        }
        for (const region of regions) assertBytes(region.bytes.subarray(GRH, GRH + 20), patternOf(20, 5), 'multicast');
        await stage.elapse(10);
        assert.equal(a.inbox.list.length + b.inbox.list.length, 0);

        members[1].detachMulticast(group);
        sender.postSend({ opcode: 'SEND', inlineData: patternOf(20, 6), ...toGroup(stage, a) });
        await a.inbox.succeed(2);
        const rest = await b.inbox.succeed(2);
        assert.ok(
          rest.every((completion) => completion.qpNum !== members[1].qpNum),
          'who has left gets nothing',
        );
        await stage.elapse(10);
        assert.equal(b.inbox.list.length, 0);
      },
      ...multicast,
    );

    test(
      'groups are apart, a queue pair can be in several, and closing it leaves them',
      async (stage) => {
        const { a, b } = stage;
        const [g1, g2] = [`${group}1`, `${group}2`];
        const sender = await ud(a);
        const [both, first] = [await ud(b), await ud(b)];
        both.attachMulticast(g1);
        both.attachMulticast(g2);
        first.attachMulticast(g1);
        for (const qp of [both, first]) for (let id = 0; id < 4; id++) qp.postRecv({ sgl: [b.memory(128).slice()], id });
        sender.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...toGroup(stage, a, g1) });
        await a.inbox.succeed();
        await b.inbox.succeed(2);
        sender.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...toGroup(stage, a, g2) });
        await a.inbox.succeed();
        assert.equal((await b.inbox.succeed())[0].qpNum, both.qpNum);
        first.close();
        sender.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...toGroup(stage, a, g1) });
        await a.inbox.succeed();
        assert.equal((await b.inbox.succeed())[0].qpNum, both.qpNum);
        await stage.elapse(10);
        assert.equal(b.inbox.list.length, 0);
      },
      ...multicast,
    );

    test(
      'a group without members swallows datagrams; leaving a group one is not in is an error',
      async (stage) => {
        const sender = await ud(stage.a);
        sender.postSend({ opcode: 'SEND', inlineData: patternOf(4, 1), ...toGroup(stage, stage.a, `${group}9`) });
        await stage.a.inbox.succeed();
        assert.throws(() => sender.detachMulticast(`${group}9`), verbsError(['VERBS_INVALID', 'VERBS_ILLEGAL']));
      },
      ...multicast,
    );
  },
};
