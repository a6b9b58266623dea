/**
 * The ibverbs provider: real NICs through libibverbs and librdmacm (InfiniBand, RoCE, iWARP), and the kernel's software devices rdma_rxe and siw.
 */

import type { Provider } from '../../open-device.js';
import { whyUnavailable } from '../opening.js';
import { loadIbverbs } from './addon.js';
import { choose, listDevices } from './discovery.js';

export const ibverbsProvider: Provider = {
  name: 'ibverbs',
  summary: 'NICs through libibverbs: InfiniBand, RoCE, iWARP',

  unavailable: () => whyUnavailable(() => choose(listDevices(loadIbverbs()), undefined)),

  /** 'ibverbs' is the best port; 'ibverbs:mlx5_0', 'ibverbs:mlx5_0:2', 'ibverbs:mlx5_0:2?gid=3&pkey=0x8001'. */
  async open(device, options) {
    const { IbverbsDevice } = await import('./device.js');
    const addon = loadIbverbs();
    return IbverbsDevice.open(addon, choose(listDevices(addon), device), options);
  },
};
