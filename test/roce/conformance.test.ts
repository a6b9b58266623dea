/** The roce provider passes the conformance suite of the verbs layer, on the loopback, over IPv4 and IPv6. */

import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { verbsConformance } from '../../conformance/verbs.js';
import { openDevice } from '../../src/verbs/index.js';

const SKIP = [
  {
    reason: 'a UC WRITE completes when it has left, and the test looks at the target in the same moment',
    tests: ['transfers: UC RDMA_WRITE moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets'],
  },
];

verbsConformance({ name: 'roce', open: (options) => openDevice('roce', options), skip: SKIP });

if (networkInterfaces()['lo']?.some(({ address }) => address === '::1')) {
  verbsConformance({ name: 'roce, IPv6', open: (options) => openDevice('roce:::1', options), scale: 0.1, skip: SKIP });
} else {
  test('roce, IPv6', { skip: 'this host has no IPv6 loopback' });
}
