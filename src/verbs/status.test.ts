/** Statuses carry libibverbs' numbers, and each that can occur has a sentence. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { STATUS, type Status, statusMeaning, statusName } from './status.js';

/** enum ibv_wc_status in its order: the position is the number. */
const ORDER =
  'SUCCESS LOC_LEN_ERR LOC_QP_OP_ERR LOC_EEC_OP_ERR LOC_PROT_ERR WR_FLUSH_ERR MW_BIND_ERR BAD_RESP_ERR LOC_ACCESS_ERR REM_INV_REQ_ERR REM_ACCESS_ERR REM_OP_ERR RETRY_EXC_ERR RNR_RETRY_EXC_ERR LOC_RDD_VIOL_ERR REM_INV_RD_REQ_ERR REM_ABORT_ERR INV_EECN_ERR INV_EEC_STATE_ERR FATAL_ERR RESP_TIMEOUT_ERR GENERAL_ERR'.split(
    ' ',
  ) as Status[];

/** Statuses of reliable datagrams and memory windows: no provider can make them. */
const ABSENT = new Set<Status>([
  'LOC_EEC_OP_ERR',
  'MW_BIND_ERR',
  'LOC_RDD_VIOL_ERR',
  'REM_INV_RD_REQ_ERR',
  'INV_EECN_ERR',
  'INV_EEC_STATE_ERR',
]);

describe('completion statuses', () => {
  for (const [code, name] of ORDER.entries()) {
    it(`${name} is ${code}`, () => {
      assert.equal(STATUS[name], code);
      assert.equal(statusName(code), name);
      if (!ABSENT.has(name)) assert.ok(statusMeaning(code).length > name.length, statusMeaning(code));
    });
  }

  it('there is no other status', () => {
    assert.deepEqual(Object.keys(STATUS), ORDER);
    assert.equal(statusName(ORDER.length), 'GENERAL_ERR');
    assert.equal(statusName(255), 'GENERAL_ERR');
  });
});
