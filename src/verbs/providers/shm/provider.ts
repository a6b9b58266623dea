/**
 * The shm provider: RDMA between the processes, threads and objects of one host, on shared memory. Works everywhere Linux does.
 */

import { openDoor } from '../../../native/door.js';
import { VerbsError } from '../../errors.js';
import type { Provider } from '../../open-device.js';
import { whyUnavailable } from '../opening.js';

export const shmProvider: Provider = {
  name: 'shm',
  summary: 'shared memory between the processes of one host; the initiator plays the NIC',

  unavailable: () => whyUnavailable(openDoor),

  async open(device, options) {
    if (device !== undefined)
      throw new VerbsError('VERBS_NO_DEVICE', `shm has one device without a name: open 'shm', not 'shm:${device}'`);
    const { ShmDevice } = await import('./device.js');
    return new ShmDevice(options);
  },
};
