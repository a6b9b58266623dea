/** The suite of the collectives over messages, on every provider. `test/soak/collectives.test.ts` has more ranks and fault plans. */

import { algorithmCases } from '../../conformance/collectives/algorithms.js';
import { collectivesConformance } from '../../conformance/collectives.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

collectivesConformance({ name: 'messages over shm', open: () => openContext({ device: 'shm' }), sizes: [2, 3, 4, 5] });

const fabric = new SimFabric({ mtu: 4096 });
collectivesConformance({ name: 'messages over sim', open: async () => new Context(fabric.open(), {}, true), sizes: [3] });

collectivesConformance({ name: 'messages over roce', open: () => openContext({ device: 'roce' }), sizes: [2] });

collectivesConformance({
  name: 'shared memory',
  sizes: [],
  skip: [{ reason: 'algorithms.test.ts tries them among processes', tests: Object.keys(algorithmCases) }],
});
