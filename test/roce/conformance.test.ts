/** The roce provider passes the conformance suite of the verbs layer, on the loopback. */

import { verbsConformance } from '../../conformance/verbs.js';
import { roceProvider } from '../../src/verbs/providers/roce/provider.js';

verbsConformance({
  name: 'roce',
  open: async (options = {}) => roceProvider.open(undefined, options),
  skip: [
    {
      reason: 'a UC WRITE completes when it has left, and the test looks at the target in the same moment',
      tests: ['transfers: UC RDMA_WRITE moves sizes 0, 1, 7, 64, 4095 and 1 MiB at odd and even offsets'],
    },
  ],
});
