/** placeholder until the provider lands in the next commit */
import type { Provider } from '../../open-device.js';
export const shmProvider: Provider = {
  name: 'shm',
  summary: '',
  unavailable: async () => 'not built',
  open: async () => {
    throw new Error();
  },
};
