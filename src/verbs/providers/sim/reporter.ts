/**
 * Turns what an endpoint reports into completions with causes, states and events of its queue pair.
 */

import type { AsyncEventType } from '../../device.js';
import { type Cause, STATUS } from '../../status.js';
import type { TransportHost } from '../../transport/host.js';
import { failureOf } from '../cause-log.js';
import type { SimCompletionQueue } from './completion-queue.js';
import type { SimQueuePair } from './queue-pair.js';

const EVENT_WORDS: Readonly<Partial<Record<AsyncEventType, string>>> = {
  QP_FATAL: 'a request failed and the queue pair went to the error state; the first failing completion tells why',
  QP_REQ_ERR: 'the peer sent a request that this queue pair refused as invalid; the queue pair went to the error state',
  QP_ACCESS_ERR: 'the peer used a key, range or right that it does not have; the queue pair went to the error state',
  SQ_DRAINED: 'the send queue is drained: everything posted before is complete',
};

export class Reporter implements TransportHost {
  private readonly qp: SimQueuePair;
  /** What failed first since the last RESET: a flush names it. */
  private first: Cause | undefined;
  /** SQ_DRAINED was asked for. */
  wantsDrained = false;

  constructor(qp: SimQueuePair) {
    this.qp = qp;
  }

  reset(): void {
    this.first = undefined;
    this.wantsDrained = false;
  }

  sendComplete(id: number, status: number, opcode: number, byteLength: number): void {
    const { qp } = this;
    const cq = qp.sendCq as SimCompletionQueue;
    qp.device.operations++;
    let causeId = 0;
    if (status === STATUS.SUCCESS) qp.device.bytes += byteLength;
    else causeId = this.explain(cq, id, status, opcode);
    cq.push(id, status, opcode, byteLength, 0, qp.qpNum, 0, 0, causeId, false);
  }

  receiveComplete(
    id: number,
    status: number,
    opcode: number,
    byteLength: number,
    immediate: number,
    flags: number,
    sourceQp: number,
    isSolicited: boolean,
  ): void {
    const { qp } = this;
    const cq = qp.recvCq as SimCompletionQueue;
    const causeId = status === STATUS.SUCCESS ? 0 : this.explain(cq, id, status, opcode);
    cq.push(id, status, opcode, byteLength, immediate, qp.qpNum, sourceQp, flags, causeId, isSolicited);
    qp.simSrq?.check();
  }

  sendQueueError(): void {
    this.qp.fail('SQE');
  }

  event(type: AsyncEventType): void {
    const { qp } = this;
    if (type === 'SQ_DRAINED' && !this.wantsDrained) return;
    if (type !== 'SQ_DRAINED') qp.fail('ERR');
    // A failing send is told by its completion; an event is for what has none.
    if (type !== 'QP_FATAL') qp.device.raise({ type, qpNum: qp.qpNum, peer: qp.peerName, words: EVENT_WORDS[type] ?? type });
  }

  private explain(cq: SimCompletionQueue, id: number, status: number, opcode: number): number {
    const { qp } = this;
    qp.device.errors++;
    const cause = failureOf({ status, opcode, id, qpNum: qp.qpNum }, { peerName: qp.peerName, firstFailure: this.first });
    if (status !== STATUS.WR_FLUSH_ERR) this.first ??= cause;
    return cq.explain(cause);
  }
}
