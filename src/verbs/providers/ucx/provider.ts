/** The ucx provider: libucp as the wire, with whatever transports it finds. */

import { VerbsError } from '../../errors.js';
import type { Provider } from '../../open-device.js';
import { prepareUcx } from './addon.js';
import { UcxDevice } from './device.js';

/** Reads 'TLS=tcp;NET_DEVICES=eth0'. */
function settingsOf(text: string | undefined): [string, string][] {
  return (text ?? '')
    .split(';')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      if (at < 1) throw new VerbsError('VERBS_INVALID', `'${part}' is no setting of UCX: write 'ucx:TLS=tcp;NET_DEVICES=eth0'`);
      return [part.slice(0, at).replace(/^UCX_/, ''), part.slice(at + 1)];
    });
}

export const ucxProvider: Provider = {
  name: 'ucx',
  summary: 'UCX (libucp): shared memory, TCP, InfiniBand, as UCX chooses',

  async unavailable() {
    if (process.platform !== 'linux') return `it needs Linux, and this is ${process.platform}.`;
    try {
      prepareUcx();
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  },

  /** 'ucx', 'ucx:TLS=tcp;NET_DEVICES=eth0': settings of UCX without their prefix; the environment (UCX_TLS ...) holds where they are silent. */
  async open(device, options) {
    return UcxDevice.open(settingsOf(device), options);
  },
};
