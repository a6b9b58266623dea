/**
 * Default constants of ranks on one host, for the choice of algorithms until this machine has been measured: order of magnitude of a current server core.
 */

import type { Machine } from './machine.js';

export const LOCAL_MACHINE: Machine = {
  name: 'one host, shared memory',
  host: { alphaSeconds: 0.6e-6, betaSecondsPerByte: 1 / 8e9 },
  network: { alphaSeconds: 5e-6, betaSecondsPerByte: 1 / 3e9 },
  memory: { alphaSeconds: 0.2e-6, betaSecondsPerByte: 1 / 20e9 },
  gammaSecondsPerByte: 1 / 20e9,
  offers: ['shared-memory'],
};
