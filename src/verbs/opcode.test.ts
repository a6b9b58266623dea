/**
 * Every cell of the opcode x type matrix, against the table of ibv_post_send(3) written down here a second time. The column of DCI is
 * that of the mlx5 extended operations, which are RC's; a DCT has no send queue.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  COMPLETION_OPCODES,
  isLegalOpcode,
  LEGAL_TYPES,
  OPCODES,
  type Opcode,
  opcodeOf,
  QP_TYPES,
  type QpType,
  WC_RECV,
  WC_RECV_RDMA_WITH_IMM,
} from './opcode.js';

const MATRIX = `
OPCODE                 UD  UC  RC  DCI DCT
SEND                   X   X   X   X   .
SEND_WITH_IMM          X   X   X   X   .
RDMA_WRITE             .   X   X   X   .
RDMA_WRITE_WITH_IMM    .   X   X   X   .
RDMA_READ              .   .   X   X   .
ATOMIC_CMP_AND_SWP     .   .   X   X   .
ATOMIC_FETCH_AND_ADD   .   .   X   X   .
`
  .trim()
  .split('\n')
  .map((line) => line.split(/\s+/));

const [[, ...types], ...rows] = MATRIX;

describe('opcode x type', () => {
  for (const [opcode, ...marks] of rows) {
    for (const [column, type] of types.entries()) {
      const legal = marks[column] === 'X';
      it(`${opcode} is ${legal ? 'legal' : 'illegal'} on ${type}`, () => {
        assert.equal(isLegalOpcode(type as QpType, opcode as Opcode), legal);
      });
    }
  }

  it('has no operation and no type beyond the matrix', () => {
    assert.deepEqual(Object.keys(LEGAL_TYPES).sort(), rows.map((row) => row[0]).sort());
    assert.deepEqual([...OPCODES].sort(), rows.map((row) => row[0]).sort());
    assert.deepEqual([...QP_TYPES].sort(), [...types].sort());
  });

  it('an unknown opcode is legal nowhere', () => {
    for (const type of QP_TYPES) assert.equal(isLegalOpcode(type, 'BIND_MW' as Opcode), false);
  });
});

describe('numeric codes', () => {
  it('are positions, and completion opcodes continue them', () => {
    for (const [code, opcode] of OPCODES.entries()) {
      assert.equal(opcodeOf(opcode), code);
      assert.equal(COMPLETION_OPCODES[code], opcode);
    }
    assert.equal(COMPLETION_OPCODES[WC_RECV], 'RECV');
    assert.equal(COMPLETION_OPCODES[WC_RECV_RDMA_WITH_IMM], 'RECV_RDMA_WITH_IMM');
    assert.equal(COMPLETION_OPCODES.length, OPCODES.length + 2);
  });

  it('of an unknown operation is -1', () => {
    assert.equal(opcodeOf('NOP' as Opcode), -1);
  });
});
