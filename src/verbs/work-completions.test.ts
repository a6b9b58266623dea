/** The reusable block of completions. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { opcodeOf, WC_RECV } from './opcode.js';
import { STATUS } from './status.js';
import { WC_GRH, WC_WITH_IMM, WorkCompletions } from './work-completions.js';

describe('WorkCompletions', () => {
  it('holds as many entries as asked for, 16 by default', () => {
    assert.equal(new WorkCompletions().capacity, 16);
    const block = new WorkCompletions(65536);
    for (const column of [
      block.id,
      block.status,
      block.opcode,
      block.byteLen,
      block.imm,
      block.qpNum,
      block.srcQp,
      block.causeId,
    ]) {
      assert.equal(column.length, 65536);
    }
    for (const capacity of [0, -1, 1.5, 65537, Number.NaN]) assert.throws(() => new WorkCompletions(capacity), RangeError);
  });

  it('shows an entry as an object', () => {
    const block = new WorkCompletions(2);
    block.id[1] = Number.MAX_SAFE_INTEGER;
    block.status[1] = STATUS.LOC_LEN_ERR;
    block.opcode[1] = WC_RECV;
    block.byteLen[1] = 48;
    block.imm[1] = 0xfffffffe;
    block.qpNum[1] = 5;
    block.srcQp[1] = 6;
    block.flags[1] = WC_WITH_IMM | WC_GRH;
    assert.deepEqual(block.at(1), {
      id: Number.MAX_SAFE_INTEGER,
      status: 'LOC_LEN_ERR',
      opcode: 'RECV',
      byteLen: 48,
      imm: 0xfffffffe,
      qpNum: 5,
      srcQp: 6,
      grh: true,
      cause: undefined,
    });
  });

  it('shows no immediate data where there is none', () => {
    const block = new WorkCompletions(1);
    block.imm[0] = 77;
    block.opcode[0] = opcodeOf('RDMA_READ');
    assert.equal(block.at(0).imm, undefined);
    assert.equal(block.at(0).grh, false);
    assert.equal(block.at(0).opcode, 'RDMA_READ');
  });
});
