/**
 * Every cell of the transition table, type x from x to, against a table written down here a second time.
 *
 * The expected values come from ibv_modify_qp(3) (required attributes), the state table of the Linux kernel's RDMA core (optional
 * attributes) and the mlx5 driver's checks of DCI and DCT. They use libibverbs' own flag names, so that no cell can be copied from the
 * source by accident.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { QP_TYPES, type QpType } from './opcode.js';
import {
  ackTimeoutUs,
  findTransition,
  PATH_MTUS,
  QP_STATES,
  type QpAttribute,
  type QpAttributes,
  type QpState,
  RNR_TIMER_US,
  transitionFault,
  transitionsOf,
} from './qp-state.js';

/** libibverbs' flag of each attribute. */
const FLAG: Readonly<Record<string, QpAttribute>> = {
  IBV_QP_CUR_STATE: 'curState',
  IBV_QP_EN_SQD_ASYNC_NOTIFY: 'enSqdAsyncNotify',
  IBV_QP_ACCESS_FLAGS: 'accessFlags',
  IBV_QP_PKEY_INDEX: 'pkeyIndex',
  IBV_QP_PORT: 'port',
  IBV_QP_QKEY: 'qkey',
  IBV_QP_AV: 'av',
  IBV_QP_PATH_MTU: 'pathMtu',
  IBV_QP_TIMEOUT: 'timeout',
  IBV_QP_RETRY_CNT: 'retryCnt',
  IBV_QP_RNR_RETRY: 'rnrRetry',
  IBV_QP_RQ_PSN: 'rqPsn',
  IBV_QP_MAX_QP_RD_ATOMIC: 'maxRdAtomic',
  IBV_QP_MIN_RNR_TIMER: 'minRnrTimer',
  IBV_QP_SQ_PSN: 'sqPsn',
  IBV_QP_MAX_DEST_RD_ATOMIC: 'maxDestRdAtomic',
  IBV_QP_DEST_QPN: 'destQpNum',
};

/** Rows: type, from, to, required flags, optional flags; flags without their prefix, `-` for none. */
const EXPECTED = `
RC  RESET INIT  PKEY_INDEX|PORT|ACCESS_FLAGS                                       -
RC  INIT  INIT  -                                                                  PKEY_INDEX|PORT|ACCESS_FLAGS
RC  INIT  RTR   AV|PATH_MTU|DEST_QPN|RQ_PSN|MAX_DEST_RD_ATOMIC|MIN_RNR_TIMER       ACCESS_FLAGS|PKEY_INDEX
RC  RTR   RTS   SQ_PSN|MAX_QP_RD_ATOMIC|RETRY_CNT|RNR_RETRY|TIMEOUT                CUR_STATE|ACCESS_FLAGS|MIN_RNR_TIMER
RC  RTS   RTS   -                                                                  CUR_STATE|ACCESS_FLAGS|MIN_RNR_TIMER
RC  RTS   SQD   -                                                                  EN_SQD_ASYNC_NOTIFY
RC  SQD   RTS   -                                                                  CUR_STATE|ACCESS_FLAGS|MIN_RNR_TIMER
RC  SQD   SQD   -     PORT|AV|TIMEOUT|RETRY_CNT|RNR_RETRY|MAX_QP_RD_ATOMIC|MAX_DEST_RD_ATOMIC|ACCESS_FLAGS|PKEY_INDEX|MIN_RNR_TIMER
UC  RESET INIT  PKEY_INDEX|PORT|ACCESS_FLAGS                                       -
UC  INIT  INIT  -                                                                  PKEY_INDEX|PORT|ACCESS_FLAGS
UC  INIT  RTR   AV|PATH_MTU|DEST_QPN|RQ_PSN                                        ACCESS_FLAGS|PKEY_INDEX
UC  RTR   RTS   SQ_PSN                                                             CUR_STATE|ACCESS_FLAGS
UC  RTS   RTS   -                                                                  CUR_STATE|ACCESS_FLAGS
UC  RTS   SQD   -                                                                  EN_SQD_ASYNC_NOTIFY
UC  SQD   RTS   -                                                                  CUR_STATE|ACCESS_FLAGS
UC  SQD   SQD   -                                                                  AV|ACCESS_FLAGS|PKEY_INDEX
UC  SQE   RTS   -                                                                  CUR_STATE|ACCESS_FLAGS
UD  RESET INIT  PKEY_INDEX|PORT|QKEY                                               -
UD  INIT  INIT  -                                                                  PKEY_INDEX|PORT|QKEY
UD  INIT  RTR   -                                                                  PKEY_INDEX|QKEY
UD  RTR   RTS   SQ_PSN                                                             CUR_STATE|QKEY
UD  RTS   RTS   -                                                                  CUR_STATE|QKEY
UD  RTS   SQD   -                                                                  EN_SQD_ASYNC_NOTIFY
UD  SQD   RTS   -                                                                  CUR_STATE|QKEY
UD  SQD   SQD   -                                                                  PKEY_INDEX|QKEY
UD  SQE   RTS   -                                                                  CUR_STATE|QKEY
DCI RESET INIT  PKEY_INDEX|PORT                                                    -
DCI INIT  INIT  -                                                                  PKEY_INDEX|PORT
DCI INIT  RTR   PATH_MTU                                                           PKEY_INDEX
DCI RTR   RTS   SQ_PSN|MAX_QP_RD_ATOMIC|RETRY_CNT|RNR_RETRY|TIMEOUT                CUR_STATE
DCI RTS   RTS   -                                                                  CUR_STATE
DCI RTS   SQD   -                                                                  EN_SQD_ASYNC_NOTIFY
DCI SQD   RTS   -                                                                  CUR_STATE
DCI SQD   SQD   -                                                                  TIMEOUT|RETRY_CNT|RNR_RETRY|MAX_QP_RD_ATOMIC
DCT RESET INIT  PKEY_INDEX|PORT|ACCESS_FLAGS                                       -
DCT INIT  INIT  -                                                                  PKEY_INDEX|PORT|ACCESS_FLAGS
DCT INIT  RTR   PATH_MTU|MIN_RNR_TIMER                                             MAX_DEST_RD_ATOMIC|ACCESS_FLAGS
`;

interface Cell {
  required: QpAttribute[];
  optional: QpAttribute[];
}

const cells = new Map<string, Cell>();
for (const line of EXPECTED.trim().split('\n')) {
  const [type, from, to, required, optional] = line.trim().split(/\s+/);
  const names = (text: string): QpAttribute[] => (text === '-' ? [] : text.split('|').map((flag) => FLAG[`IBV_QP_${flag}`]));
  cells.set(`${type} ${from}>${to}`, { required: names(required), optional: names(optional) });
}

/** The expected cell: every state may go to RESET and to ERR with no attribute but the state. */
function expectedCell(type: QpType, from: QpState, to: QpState): Cell | undefined {
  if (to === 'RESET' || to === 'ERR') return { required: [], optional: [] };
  return cells.get(`${type} ${from}>${to}`);
}

/** A value in range for every attribute. */
function goodValue(name: QpAttribute, from: QpState): unknown {
  switch (name) {
    case 'av':
      return { gid: 'fe80::1' };
    case 'curState':
      return from;
    case 'enSqdAsyncNotify':
      return true;
    case 'pathMtu':
      return 1024;
    default:
      return 1;
  }
}

function attributesOf(names: readonly QpAttribute[], from: QpState): QpAttributes {
  return Object.fromEntries(names.map((name) => [name, goodValue(name, from)]));
}

/** Lowest and highest legal value of each numeric attribute, from the field widths of the specification. */
const RANGE: Readonly<Partial<Record<QpAttribute, readonly [low: number, high: number]>>> = {
  pkeyIndex: [0, 65535],
  port: [1, 255],
  qkey: [0, 2 ** 32 - 1],
  destQpNum: [0, 2 ** 24 - 1],
  rqPsn: [0, 2 ** 24 - 1],
  sqPsn: [0, 2 ** 24 - 1],
  maxRdAtomic: [0, 255],
  maxDestRdAtomic: [0, 255],
  minRnrTimer: [0, 31],
  timeout: [0, 31],
  retryCnt: [0, 7],
  rnrRetry: [0, 7],
};

const ALL = Object.values(FLAG);

for (const type of QP_TYPES) {
  describe(`transitions of ${type}`, () => {
    for (const from of QP_STATES) {
      for (const to of QP_STATES) {
        const cell = expectedCell(type, from, to);
        if (!cell) {
          it(`${from} to ${to} is refused, and the message names where it can go`, () => {
            assert.equal(findTransition(type, from, to), undefined);
            const fault = transitionFault(type, from, to, {});
            assert.match(fault ?? '', new RegExp(`${type} queue pair cannot go from ${from} to ${to}`));
            assert.match(fault ?? '', /RESET/);
          });
          continue;
        }
        it(`${from} to ${to} takes exactly its attributes`, () => {
          const transition = findTransition(type, from, to);
          assert.ok(transition);
          assert.deepEqual([...transition.required].sort(), [...cell.required].sort(), 'required');
          assert.deepEqual([...transition.optional].sort(), [...cell.optional].sort(), 'optional');

          const minimum = attributesOf(cell.required, from);
          assert.equal(transitionFault(type, from, to, minimum), undefined, 'the required attributes are enough');
          assert.equal(transitionFault(type, from, to, attributesOf([...cell.required, ...cell.optional], from)), undefined);

          for (const missing of cell.required) {
            const fault = transitionFault(type, from, to, { ...minimum, [missing]: undefined });
            assert.match(fault ?? '', new RegExp(`${missing} is missing`), `${missing} is required`);
          }
          for (const foreign of ALL.filter((name) => !cell.required.includes(name) && !cell.optional.includes(name))) {
            const fault = transitionFault(type, from, to, { ...minimum, [foreign]: goodValue(foreign, from) });
            assert.match(fault ?? '', new RegExp(`does not take ${foreign}`), `${foreign} is foreign`);
          }
        });
        for (const name of [...cell.required, ...cell.optional]) {
          const range = RANGE[name];
          if (!range) continue;
          it(`${from} to ${to} takes ${name} from ${range[0]} to ${range[1]} only`, () => {
            const minimum = attributesOf(cell.required, from);
            for (const value of range) assert.equal(transitionFault(type, from, to, { ...minimum, [name]: value }), undefined);
            for (const value of [range[0] - 1, range[1] + 1, 0.5 + range[0], Number.NaN, '1']) {
              const fault = transitionFault(type, from, to, { ...minimum, [name]: value } as QpAttributes);
              assert.match(fault ?? '', new RegExp(`^${name} must be`), `${name} = ${String(value)}`);
            }
          });
        }
      }
    }

    it('lists every legal transition once', () => {
      const expected = QP_STATES.flatMap((from) =>
        QP_STATES.filter((to) => expectedCell(type, from, to)).map((to) => `${from}>${to}`),
      );
      assert.deepEqual(
        transitionsOf(type)
          .map((t) => `${t.from}>${t.to}`)
          .sort(),
        expected.sort(),
      );
      assert.ok(transitionsOf(type).every((t) => t.type === type));
    });
  });
}

describe('attributes with rules of their own', () => {
  const rtr: QpAttributes = attributesOf(cells.get('RC INIT>RTR')?.required ?? [], 'INIT');

  it('pathMtu is one of the five sizes of the specification', () => {
    assert.deepEqual(PATH_MTUS, [256, 512, 1024, 2048, 4096]);
    for (const mtu of [256, 512, 1024, 2048, 4096]) {
      assert.equal(transitionFault('RC', 'INIT', 'RTR', { ...rtr, pathMtu: mtu }), undefined);
    }
    for (const mtu of [0, 1, 255, 1500, 8192]) {
      assert.match(transitionFault('RC', 'INIT', 'RTR', { ...rtr, pathMtu: mtu }) ?? '', /^pathMtu must be/);
    }
  });

  it('curState must be the state the queue pair is in', () => {
    assert.equal(transitionFault('RC', 'RTS', 'RTS', { curState: 'RTS' }), undefined);
    assert.match(transitionFault('RC', 'RTS', 'RTS', { curState: 'SQD' }) ?? '', /curState says SQD.*is in RTS/);
  });

  it('av needs a gid', () => {
    assert.match(transitionFault('RC', 'INIT', 'RTR', { ...rtr, av: {} } as QpAttributes) ?? '', /gid/);
  });

  it('accessFlags are bits of the remote rights, not any number', () => {
    const init = { pkeyIndex: 0, port: 1 };
    for (const flags of [0, 1, 2, 4, 8, 15]) {
      assert.equal(transitionFault('RC', 'RESET', 'INIT', { ...init, accessFlags: flags }), undefined);
    }
    for (const flags of [-1, 1.5, 2 ** 31]) {
      assert.match(transitionFault('RC', 'RESET', 'INIT', { ...init, accessFlags: flags }) ?? '', /^accessFlags must be/);
    }
  });

  it('an attribute that nobody knows is refused by name', () => {
    const fault = transitionFault('RC', 'RTS', 'RTS', { mtu: 4096 } as QpAttributes);
    assert.match(fault ?? '', /does not take mtu/);
  });
});

describe('coded times', () => {
  it('the RNR timer codes are the 32 times of the specification, in microseconds', () => {
    const milliseconds = [
      655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68,
      10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
    ];
    assert.equal(RNR_TIMER_US.length, 32);
    for (const [code, ms] of milliseconds.entries()) assert.equal(RNR_TIMER_US[code], Math.round(ms * 1000), `code ${code}`);
  });

  it('the acknowledge timeout is 4.096 us times two to the code, and 0 is endless', () => {
    assert.equal(ackTimeoutUs(0), Number.POSITIVE_INFINITY);
    assert.equal(ackTimeoutUs(1), 8.192);
    assert.equal(Math.round(ackTimeoutUs(14)), 67109);
    assert.equal(Math.round(ackTimeoutUs(31) / 1e6), 8796);
  });
});

describe('state numbers', () => {
  it('are the order in which libibverbs counts them', () => {
    assert.deepEqual(QP_STATES, ['RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR']);
  });
});
