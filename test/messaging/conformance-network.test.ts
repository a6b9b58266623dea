/** The verbs engine passes the messaging suite on the providers that send packets, on sim also while packets are lost, doubled, delayed and damaged. */

import { messagingConformance } from '../../conformance/messaging.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';
import { lossyFabric } from './lossy-fabric.js';

messagingConformance({ name: 'verbs on roce', open: () => openContext({ device: 'roce', name: 'messaging suite' }) });

const fabric = new SimFabric({ mtu: 4096 });
messagingConformance({ name: 'verbs on sim', open: async () => new Context(fabric.open(), {}, true) });

const { fabric: faulty, seed } = lossyFabric(4096);
messagingConformance({
  name: `verbs on sim with faults, VERBENA_SEED=${seed}`,
  open: async () => new Context(faulty.open(), {}, true),
  worker: { ring: 'immediate' },
});
