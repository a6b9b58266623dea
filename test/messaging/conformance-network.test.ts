/** The verbs engine passes the messaging suite on the providers that send packets: rings by WRITE_WITH_IMM. */

import { messagingConformance } from '../../conformance/messaging.js';
import { Context, openContext } from '../../src/messaging/index.js';
import { SimFabric } from '../../src/verbs/providers/sim/fabric.js';

messagingConformance({ name: 'verbs on roce', open: () => openContext({ device: 'roce', name: 'messaging suite' }) });

const fabric = new SimFabric({ mtu: 4096 });
messagingConformance({ name: 'verbs on sim, real time', open: async () => new Context(fabric.open(), {}, true) });
