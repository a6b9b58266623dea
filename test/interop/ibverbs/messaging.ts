/** Runs in the guest: the messaging conformance suite over rdma_rxe. */

import { messagingConformance } from '../../../conformance/messaging.js';
import { openContext } from '../../../src/messaging/index.js';

messagingConformance({
  name: 'verbs on ibverbs:rxe0',
  open: () => openContext({ device: 'ibverbs:rxe0' }),
  worker: { timeoutMs: 60_000 },
});
