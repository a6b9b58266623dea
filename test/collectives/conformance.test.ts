/** The suite of the collectives over messages, on every provider. `test/soak/collectives.test.ts` has more ranks and fault plans. */

import { collectivesConformance } from '../../conformance/collectives.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

collectivesConformance({ name: 'messages over shm', open: () => openContext({ device: 'shm' }), sizes: [2, 3, 4, 5] });

const fabric = new SimFabric({ mtu: 4096 });
collectivesConformance({ name: 'messages over sim', open: async () => new Context(fabric.open(), {}, true), sizes: [2, 3, 4] });

collectivesConformance({ name: 'shared memory', sizes: [3] });

collectivesConformance({ name: 'messages over roce', open: () => openContext({ device: 'roce' }), sizes: [3] });
