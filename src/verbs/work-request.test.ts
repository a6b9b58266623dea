/** The static rules of send requests: every operation on every type with what it needs, and each need missing. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AddressHandle } from './address-handle.js';
import { VerbsError } from './errors.js';
import { OPCODES, type Opcode, QP_TYPES, type QpType } from './opcode.js';
import { rejectRequest, type SendWorkRequest, sendFault } from './work-request.js';

const LIMITS = { maxSendSge: 2, maxInline: 64 };
const AH: AddressHandle = { av: { gid: 'fe80::1' }, close() {}, [Symbol.dispose]() {} };
const SGE8 = { addr: 4096, length: 8, lkey: 1 };
const REMOTE = { remoteAddr: 65536, rkey: 9 };

/** Fields that an operation needs, apart from the destination of a datagram. */
const NEEDS: Readonly<Record<Opcode, Partial<SendWorkRequest>>> = {
  SEND: {},
  SEND_WITH_IMM: { imm: 1 },
  RDMA_WRITE: REMOTE,
  RDMA_WRITE_WITH_IMM: { ...REMOTE, imm: 1 },
  RDMA_READ: REMOTE,
  ATOMIC_CMP_AND_SWP: { ...REMOTE, compare: 1n, swap: 2n },
  ATOMIC_FETCH_AND_ADD: { ...REMOTE, add: 1n },
};

/** Fields that a type needs: where the request goes. */
const DESTINATION: Readonly<Record<QpType, Partial<SendWorkRequest>>> = {
  RC: {},
  UC: {},
  UD: { ah: AH, remoteQpn: 2, remoteQkey: 3 },
  DCI: { ah: AH, remoteQpn: 2, dcKey: 3 },
  DCT: {},
};

/** ibv_post_send(3). */
const LEGAL: Readonly<Record<QpType, readonly Opcode[]>> = {
  RC: OPCODES,
  UC: ['SEND', 'SEND_WITH_IMM', 'RDMA_WRITE', 'RDMA_WRITE_WITH_IMM'],
  UD: ['SEND', 'SEND_WITH_IMM'],
  DCI: OPCODES,
  DCT: [],
};

const good = (type: QpType, opcode: Opcode): SendWorkRequest => ({
  opcode,
  sgl: [SGE8],
  id: 7,
  ...NEEDS[opcode],
  ...DESTINATION[type],
});

for (const type of QP_TYPES) {
  describe(`send requests on ${type}`, () => {
    for (const opcode of OPCODES) {
      if (!LEGAL[type].includes(opcode)) {
        it(`${opcode} is no operation of ${type}`, () => {
          assert.match(sendFault(type, good(type, opcode), LIMITS) ?? '', new RegExp(`${opcode} is not an operation of ${type}`));
        });
        continue;
      }
      it(`${opcode} with all it needs is taken`, () => {
        assert.equal(sendFault(type, good(type, opcode), LIMITS), undefined);
      });
      for (const field of Object.keys({ ...NEEDS[opcode], ...DESTINATION[type] }) as (keyof SendWorkRequest)[]) {
        it(`${opcode} without ${field} is refused, and the message names it`, () => {
          const fault = sendFault(type, { ...good(type, opcode), [field]: undefined }, LIMITS);
          assert.ok(fault?.includes(field), fault);
        });
      }
    }
  });
}

describe('fields of a send request', () => {
  it('an unknown opcode is refused with the list of the known ones', () => {
    assert.match(sendFault('RC', { opcode: 'NOP' as Opcode }, LIMITS) ?? '', /unknown opcode 'NOP'.*RDMA_READ/);
  });

  it('takes as many elements as the queue pair was made for', () => {
    const sge = { addr: 0, length: 1, lkey: 1 };
    assert.equal(sendFault('RC', { opcode: 'SEND', sgl: [sge, sge] }, LIMITS), undefined);
    assert.match(sendFault('RC', { opcode: 'SEND', sgl: [sge, sge, sge] }, LIMITS) ?? '', /maxSendSge 2/);
  });

  it('the id is a safe integer', () => {
    for (const id of [0, -1, Number.MAX_SAFE_INTEGER]) assert.equal(sendFault('RC', { opcode: 'SEND', id }, LIMITS), undefined);
    for (const id of [0.5, Number.NaN, 2 ** 53])
      assert.match(sendFault('RC', { opcode: 'SEND', id }, LIMITS) ?? '', /^id must be/);
  });

  it('immediate data is 32 bits unsigned', () => {
    for (const imm of [0, 0xffffffff]) assert.equal(sendFault('RC', { opcode: 'SEND_WITH_IMM', imm }, LIMITS), undefined);
    for (const imm of [-1, 2 ** 32, 1.5]) {
      assert.match(sendFault('RC', { opcode: 'SEND_WITH_IMM', imm }, LIMITS) ?? '', /needs imm/);
    }
  });

  it('inline data is at most maxInline, in one of the two forms', () => {
    const sge = (length: number) => ({ addr: 0, length, lkey: 1 });
    assert.equal(sendFault('RC', { opcode: 'SEND', inline: true, sgl: [sge(64)] }, LIMITS), undefined);
    assert.match(sendFault('RC', { opcode: 'SEND', inline: true, sgl: [sge(64), sge(1)] }, LIMITS) ?? '', /65 bytes inline/);
    assert.equal(sendFault('RC', { opcode: 'SEND', inlineData: new Uint8Array(64) }, LIMITS), undefined);
    assert.match(sendFault('RC', { opcode: 'SEND', inlineData: new Uint8Array(65) }, LIMITS) ?? '', /65 bytes inline/);
    const both = { opcode: 'SEND', inlineData: new Uint8Array(1), sgl: [sge(1)] } as const;
    assert.match(sendFault('RC', both, LIMITS) ?? '', /either sgl or inlineData/);
  });

  for (const opcode of ['RDMA_READ', 'ATOMIC_CMP_AND_SWP', 'ATOMIC_FETCH_AND_ADD'] as const) {
    it(`${opcode} cannot be inline: it returns data`, () => {
      assert.match(sendFault('RC', { ...good('RC', opcode), inline: true }, LIMITS) ?? '', /cannot be inline/);
    });
  }

  for (const opcode of ['ATOMIC_CMP_AND_SWP', 'ATOMIC_FETCH_AND_ADD'] as const) {
    it(`${opcode} works on 8 aligned bytes and returns 8`, () => {
      for (const offset of [1, 2, 4, 7]) {
        assert.match(sendFault('RC', { ...good('RC', opcode), remoteAddr: 65536 + offset }, LIMITS) ?? '', /multiple of 8/);
      }
      for (const length of [0, 4, 7, 9, 16]) {
        assert.match(sendFault('RC', { ...good('RC', opcode), sgl: [{ ...SGE8, length }] }, LIMITS) ?? '', /8 bytes/);
      }
      const halves = [
        { ...SGE8, length: 4 },
        { ...SGE8, length: 4 },
      ];
      assert.equal(sendFault('RC', { ...good('RC', opcode), sgl: halves }, LIMITS), undefined, 'scattered over two elements');
    });
  }
});

describe('rejectRequest', () => {
  it('throws VERBS_ILLEGAL for a wrong operation and VERBS_INVALID for a bad field, with the index', () => {
    const illegal = sendFault('UD', good('RC', 'RDMA_READ'), LIMITS) ?? '';
    assert.throws(
      () => rejectRequest(illegal, 3),
      (error) =>
        VerbsError.is(error) && error.code === 'VERBS_ILLEGAL' && error.badIndex === 3 && /request 3/.test(error.message),
    );
    const invalid = sendFault('RC', { opcode: 'SEND', id: 0.5 }, LIMITS) ?? '';
    assert.throws(
      () => rejectRequest(invalid, 0),
      (error) => VerbsError.is(error) && error.code === 'VERBS_INVALID' && error.badIndex === 0,
    );
  });
});
