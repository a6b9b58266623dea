/** The rdma shuffle passes its suite over RoCE too: the same READs, as packets. */

import { shuffleConformance } from '../../conformance/shuffle.js';
import { rdma } from '../../src/dataset/index.js';
import { openContext } from '../../src/messaging/index.js';

shuffleConformance({
  name: 'rdma on roce',
  manager: rdma,
  open: (rank) => openContext({ device: 'roce', name: `shuffle suite ${rank}` }),
});
