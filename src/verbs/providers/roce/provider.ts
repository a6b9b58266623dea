/**
 * The roce provider: RoCEv2 on UDP, in user space, without privilege or kernel module. It reaches other processes, other hosts, the
 * kernel's rdma_rxe and RoCE hardware.
 */

import { openDoor } from '../../../native/door.js';
import type { Provider } from '../../open-device.js';
import { whyUnavailable } from '../opening.js';
import { localAddress } from './address.js';

export const roceProvider: Provider = {
  name: 'roce',
  summary: 'RoCEv2 over UDP in user space: other hosts, rdma_rxe, RoCE hardware',

  unavailable: () => whyUnavailable(openDoor),

  /** 'roce' is the loopback; 'roce:eth0', 'roce:10.0.0.1', 'roce:10.0.0.1:5000', 'roce:[fd00::1]:5000'. */
  async open(device, options) {
    const { RoceDevice } = await import('./device.js');
    return RoceDevice.open(localAddress(device), options);
  },
};
