/**
 * The roce provider passes the conformance suite between two network namespaces joined by veth, without loss and with 1 % of all
 * packets lost at random; test/interop/roce-loss.test.ts has 5 %.
 */

import { after, test } from 'node:test';
import { verbsConformance } from '../../conformance/verbs.js';
import { openDevice } from '../../src/verbs/index.js';
import { NETWORK_ADDRESSES, VethNetwork } from './network.js';

const UNRELIABLE = {
  reason: 'the network loses packets, and unreliable services do not send them again',
  tests: [
    'datagrams',
    'unreliable connections',
    ...['SEND', 'SEND_WITH_IMM', 'RDMA_WRITE_WITH_IMM'].map(
      (opcode) => `transfers: UC ${opcode} moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets`,
    ),
  ],
};

/** Shares of packets that are lost, in percent, and how much of each test is played. */
const LOSSES = (process.env['VERBENA_LOSS'] ?? '0,1').split(',').map(Number);
const SCALE = Number(process.env['VERBENA_SCALE'] ?? 0);

for (const percent of LOSSES) {
  const name = `roce over veth, ${percent} % loss`;
  const network = VethNetwork.make();
  const fault = typeof network === 'string' ? network : percent > 0 ? network.lose(percent) : undefined;
  if (typeof network !== 'string') after(() => network.remove());
  if (typeof network === 'string' || fault !== undefined) {
    test(name, { skip: fault ?? 'no network' });
    continue;
  }
  let opened = 0;
  verbsConformance({
    name,
    open: async (options) => {
      const end = opened++ % 2;
      return openDevice(`roce:${network.names[end]}/${NETWORK_ADDRESSES[end]}`, options);
    },
    scale: SCALE || (percent === 0 ? 0.05 : 0.02),
    skip: [
      {
        reason: 'a UC WRITE completes when it has left, and the test looks at the target in the same moment',
        tests: ['transfers: UC RDMA_WRITE moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets'],
      },
      ...(percent > 0 ? [UNRELIABLE] : []),
    ],
  });
}
