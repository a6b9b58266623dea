/** The causes of failed requests under the numbers that completions carry: the last 1,024 of them. */

import { COMPLETION_OPCODES, WC_RECV } from '../opcode.js';
import { type Cause, STATUS, statusMeaning, statusName } from '../status.js';

/** A failed request, in the numbers of its completion. */
interface Failure {
  readonly status: number;
  readonly opcode: number;
  readonly id: number;
  readonly qpNum: number;
}

/** What is known of its queue pair. */
interface Failed {
  readonly peerName: string;
  /** What failed first since the last RESET: a flush names it. */
  readonly firstFailure: Cause | undefined;
}

/** Why a request failed. `remark` follows what the status means. */
export function failureOf({ status, opcode, id, qpNum }: Failure, qp: Failed | undefined, remark = ''): Cause {
  const first = status === STATUS.WR_FLUSH_ERR ? qp?.firstFailure : undefined;
  return {
    status: statusName(status),
    qpNum,
    wrId: first && opcode < WC_RECV ? first.wrId : id,
    opcode: COMPLETION_OPCODES[opcode],
    peer: qp?.peerName ?? 'unknown',
    words: first
      ? `request ${first.wrId} failed with ${first.status} before this one was carried out: ${first.words}`
      : statusMeaning(status) + remark,
  };
}

const MOST = 1024;

export class CauseLog {
  private readonly causes: (Cause | undefined)[] = [];
  private last = 0;

  /** Keeps a cause and returns its number, 1 or more. */
  note(cause: Cause): number {
    this.last++;
    this.causes[this.last % MOST] = cause;
    return this.last;
  }

  find(causeId: number): Cause | undefined {
    const isKept = causeId > 0 && causeId > this.last - MOST && causeId <= this.last;
    return isKept ? this.causes[causeId % MOST] : undefined;
  }
}
