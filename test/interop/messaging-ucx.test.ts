/** The messaging suite on UCX: its shared memory transports, and its TCP on the loopback. */

import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { messagingConformance } from '../../conformance/messaging.js';
import { openContext } from '../../src/messaging/index.js';
import { UCX_SKIPS as skip } from './ucx/skips.js';

if (existsSync('/usr/include/ucp/api/ucp.h')) {
  messagingConformance({ name: 'ucx, shared memory', skip, open: () => openContext({ device: 'ucx:TLS=sm,self' }) });
  messagingConformance({ name: 'ucx, TCP', skip, open: () => openContext({ device: 'ucx:TLS=tcp;NET_DEVICES=lo' }) });
} else {
  test('the messaging suite on UCX', { skip: 'needs apt-get install libucx-dev' });
}
