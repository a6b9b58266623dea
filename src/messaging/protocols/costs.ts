/**
 * Constants of links, where nothing was measured. Network latencies, overheads and copy speeds are those that UCX publishes as its defaults; the
 * ones of shared memory were measured on small machines.
 */

import type { Costs } from './protocol.js';

const MIB = 1 << 20;

/** Registration: found in the cache. */
const CACHED = { registrationNs: 50, registrationNsPerByte: 0 };

const network = (latencyNs: number, bytesPerSecond: number): Costs => ({
  latencyNs,
  bytesPerSecond,
  copyBytesPerSecond: 5800 * MIB,
  overheadNs: 40,
  bounceNs: 20,
  ...CACHED,
  rendezvousPreference: 0.99,
});

/** By name: 'edr', 'hdr', 'ndr', 'ethernet-10', 'shm'. */
export const LINK_COSTS: Readonly<Record<string, Costs>> = {
  edr: network(600, 12.5e9),
  hdr: network(600, 25e9),
  ndr: network(600, (50e9 * 64) / 66),
  'ethernet-10': { ...network(5200, 1.25e9), overheadNs: 500 },
  shm: {
    latencyNs: 150,
    bytesPerSecond: 11e9,
    copyBytesPerSecond: 11e9,
    overheadNs: 50,
    bounceNs: 40,
    ...CACHED,
    rendezvousPreference: 0.99,
  },
};

/** Defaults of a provider. */
export function defaultCosts(provider: string): Costs {
  return provider === 'shm' ? LINK_COSTS['shm'] : provider === 'ibverbs' ? LINK_COSTS['edr'] : LINK_COSTS['ethernet-10'];
}
