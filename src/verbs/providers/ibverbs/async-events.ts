/** Async events of libibverbs by their numbers. */

import type { AsyncEventType } from '../../device.js';

interface Meaning {
  readonly type: AsyncEventType | undefined;
  readonly words: string;
  /** What the event's object is. */
  readonly about: 'cq' | 'qp' | 'srq' | 'port' | 'device';
}

const MEANINGS: Readonly<Record<number, Meaning>> = {
  0: { type: 'CQ_ERR', about: 'cq', words: 'a completion queue overran: close it and make a deeper one' },
  1: { type: 'QP_FATAL', about: 'qp', words: 'the device met an error with the queue pair and moved it to the error state' },
  2: {
    type: 'QP_REQ_ERR',
    about: 'qp',
    words: 'the peer sent a request that this queue pair refused as invalid; the queue pair went to the error state',
  },
  3: {
    type: 'QP_ACCESS_ERR',
    about: 'qp',
    words: 'the peer used a key, range or right that it does not have; the queue pair went to the error state',
  },
  4: { type: 'COMM_EST', about: 'qp', words: 'the first packet of the peer arrived before the queue pair was told to send' },
  5: { type: 'SQ_DRAINED', about: 'qp', words: 'the send queue is drained: everything posted before is complete' },
  8: { type: 'DEVICE_FATAL', about: 'device', words: 'the RDMA device failed: close it and open it again' },
  9: { type: 'PORT_ACTIVE', about: 'port', words: 'the link came up' },
  10: { type: 'PORT_ERR', about: 'port', words: 'the link went down: cable, switch, or ip link set ... down' },
  11: { type: 'LID_CHANGE', about: 'port', words: 'the port has another LID: connect again, and tell peers the new address()' },
  12: {
    type: 'PKEY_CHANGE',
    about: 'port',
    words: 'the partitions of the port changed: who was connected in one that is gone must connect again',
  },
  13: { type: 'SM_CHANGE', about: 'port', words: 'another subnet manager took over' },
  14: { type: 'QP_FATAL', about: 'srq', words: 'the device met an error with a shared receive queue' },
  15: { type: 'SRQ_LIMIT_REACHED', about: 'srq', words: 'a shared receive queue has fewer requests left than its limit' },
  16: {
    type: 'QP_LAST_WQE_REACHED',
    about: 'qp',
    words: 'the queue pair went to the error state and takes no more requests from its shared receive queue',
  },
  17: {
    type: 'CLIENT_REREGISTER',
    about: 'port',
    words: 'the subnet manager has forgotten its clients: join multicast groups again',
  },
  18: { type: 'GID_CHANGE', about: 'port', words: 'a GID of the port came, went or changed: addresses told before may be void' },
};

/** The meaning of an event number; `type` is undefined for those that cannot happen here: alternate paths and work queues are not used. */
export function eventOf(code: number): Meaning {
  return MEANINGS[code] ?? { type: undefined, about: 'port', words: `event ${code}` };
}
