/** The verbs engine passes the messaging suite on shm, with mapped rings and with rings written by WRITE_WITH_IMM. */

import { messagingConformance } from '../../conformance/messaging.js';
import { openContext } from '../../src/messaging/index.js';

const open = () => openContext({ device: 'shm', name: 'messaging suite' });
messagingConformance({ name: 'verbs on shm', open });
messagingConformance({ name: 'verbs on shm, immediate rings', open, worker: { ring: 'immediate' } });
