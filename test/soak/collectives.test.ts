/** The suite of the collectives with more ranks on every provider, and every algorithm under loss. */

import { collectivesConformance } from '../../conformance/collectives.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';
import { lossyFabric } from '../messaging/lossy-fabric.js';

collectivesConformance({ name: 'messages over shm', open: () => openContext({ device: 'shm' }), sizes: [6, 7, 8, 9] });
collectivesConformance({ name: 'messages over roce', open: () => openContext({ device: 'roce' }), sizes: [2, 3, 4, 5] });

const fabric = new SimFabric({ mtu: 4096 });
collectivesConformance({ name: 'messages over sim', open: async () => new Context(fabric.open(), {}, true), sizes: [5, 8, 16] });

const { fabric: faulty, seed } = lossyFabric(1024);
collectivesConformance({
  name: `messages over sim with faults, VERBENA_SEED=${seed}`,
  open: async () => new Context(faulty.open(), {}, true),
  worker: { ring: 'immediate' },
  sizes: [2, 3, 4, 5],
});
