/** Both managers pass the suite of shuffles; rdma on shared memory and on a network. */

import { shuffleConformance } from '../../conformance/shuffle.js';
import { rdma, sortTcp } from '../../src/dataset/index.js';
import { openContext } from '../../src/messaging/index.js';

const open = (rank: number) => openContext({ device: 'shm', name: `shuffle suite ${rank}` });
shuffleConformance({ name: 'rdma on shm', manager: rdma, open });
shuffleConformance({
  name: 'sort-tcp',
  manager: sortTcp,
  open,
  skip: [
    {
      reason: 'committed output lies in a file without a name, where nothing can damage it from here',
      tests: ['a damaged block is fetched again, and then named'],
    },
  ],
});
