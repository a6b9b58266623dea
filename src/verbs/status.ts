/**
 * Completion statuses: libibverbs' enum ibv_wc_status with its numbers, and the cause of a failure in words and fields.
 *
 * A bare code 12 has cost people days. So a completion with an error carries a `Cause`: which request, which peer, which rule,
 * and what to do about it.
 */

import type { CompletionOpcode } from './opcode.js';

/** Name and number of each status; the numbers are libibverbs'. */
export const STATUS = {
  SUCCESS: 0,
  LOC_LEN_ERR: 1,
  LOC_QP_OP_ERR: 2,
  LOC_EEC_OP_ERR: 3,
  LOC_PROT_ERR: 4,
  WR_FLUSH_ERR: 5,
  MW_BIND_ERR: 6,
  BAD_RESP_ERR: 7,
  LOC_ACCESS_ERR: 8,
  REM_INV_REQ_ERR: 9,
  REM_ACCESS_ERR: 10,
  REM_OP_ERR: 11,
  RETRY_EXC_ERR: 12,
  RNR_RETRY_EXC_ERR: 13,
  LOC_RDD_VIOL_ERR: 14,
  REM_INV_RD_REQ_ERR: 15,
  REM_ABORT_ERR: 16,
  INV_EECN_ERR: 17,
  INV_EEC_STATE_ERR: 18,
  FATAL_ERR: 19,
  RESP_TIMEOUT_ERR: 20,
  GENERAL_ERR: 21,
} as const;

/** Name of a completion status. */
export type Status = keyof typeof STATUS;

const NAMES: readonly Status[] = Object.keys(STATUS) as Status[];

/** Name of a status number; 'GENERAL_ERR' for a number nobody defines. */
export function statusName(code: number): Status {
  return NAMES[code] ?? 'GENERAL_ERR';
}

const MEANING: Readonly<Partial<Record<Status, string>>> = {
  SUCCESS: 'the operation is complete',
  LOC_LEN_ERR: 'the message is longer than the receive buffer, or than one MTU on UD',
  LOC_QP_OP_ERR: 'the queue pair could not carry out the request',
  LOC_PROT_ERR:
    'a scatter/gather element names memory that is not registered, is out of range, or belongs to another protection domain',
  WR_FLUSH_ERR: 'the queue pair went to the error state before this request was carried out; the first failing request tells why',
  BAD_RESP_ERR: 'the responder answered with something that does not fit the request',
  LOC_ACCESS_ERR: 'the region does not allow the access that the request needs at the receiver',
  REM_INV_REQ_ERR: 'the responder refused the request as invalid',
  REM_ACCESS_ERR: 'the remote key is wrong or revoked, the range is outside its region, or a right is missing',
  REM_OP_ERR: 'the responder could not carry out the operation',
  RETRY_EXC_ERR: 'the peer did not answer within timeout x retries',
  RNR_RETRY_EXC_ERR: 'the peer had no receive request posted within the RNR retries',
  REM_ABORT_ERR: 'the responder aborted the operation',
  FATAL_ERR: 'the device failed',
  RESP_TIMEOUT_ERR: 'the responder timed out',
  GENERAL_ERR: 'another error',
};

/** One sentence on what a status means. */
export function statusMeaning(code: number): string {
  return MEANING[statusName(code)] ?? statusName(code);
}

/** Why a work request failed: the fields a program can act on, and the words a person reads. */
export interface Cause {
  readonly status: Status;
  /** The queue pair whose request failed. */
  readonly qpNum: number;
  /** `id` of the failing work request; of the first failing one for a flush. */
  readonly wrId: number;
  readonly opcode: CompletionOpcode;
  /** Who was at the other end, as the provider names peers ("process 4242, QP 17"), or 'unknown'. */
  readonly peer: string;
  /** What was broken and what to do, one or two sentences. */
  readonly words: string;
}
