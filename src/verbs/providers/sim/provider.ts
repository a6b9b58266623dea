/**
 * The sim provider for `openDevice`: devices of one fabric of the process, on the real clock. Programs that want virtual time, faults or
 * links of their own make a `SimFabric` and open devices there.
 */

import type { Provider } from '../../open-device.js';
import { SimFabric } from './fabric.js';

const fabrics = new Map<string, SimFabric>();

export const simProvider: Provider = {
  name: 'sim',
  summary: 'devices in this process, joined by simulated links',
  unavailable: async () => undefined,
  /** 'sim:lab' opens a device of the fabric 'lab' of this process; plain 'sim' of the fabric without a name. */
  async open(device, options) {
    const name = device ?? '';
    const fabric = fabrics.get(name) ?? new SimFabric();
    fabrics.set(name, fabric);
    return fabric.open(options);
  },
};
