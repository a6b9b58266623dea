/** A thread with an open device that waits for ever. */

import { parentPort } from 'node:worker_threads';
import { openDevice } from '../../src/verbs/open-device.js';

const device = await openDevice('ibverbs');
const pd = device.allocPd();
const cq = device.createCq({ mode: 'event' });
pd.register(device.alloc(4096), { localWrite: true });
pd.createQp({ type: 'UD', sendCq: cq, recvCq: cq });
pd.createSrq();
pd.createAh({ gid: 'fe80::3', lid: 79 });
const never = cq.next();
parentPort?.postMessage('waiting');
await never;
