import { type Abilities, type CostLine, type Costs, copyNs, handshakeNs, type Protocol, wireNs } from './protocol.js';

/**
 * The fallback that always works: after RTS and RTR the data comes in fragments through the ring, packed from pieces and unpacked into pieces. Both
 * sides copy, but neither needs a registration, a landing buffer or one run of memory.
 */
export const rndvAm: Protocol = {
  name: 'rndv-am',
  summary: 'after a handshake, fragments through the ring: two copies',
  completion: 'when the last fragment is in the ring: the sender keeps the data until then',
  stages: ['RTS', 'the receiver matches: RTR', 'DATA fragments', 'the receiver unpacks each'],
  unusable: () => undefined,
  range: () => ({ min: 1, max: Number.POSITIVE_INFINITY }),
  cost: (costs: Costs, abilities: Abilities): CostLine => ({
    fixedNs: costs.rendezvousPreference * (handshakeNs(costs) + costs.latencyNs + costs.overheadNs),
    nsPerByte:
      costs.rendezvousPreference *
      (Math.max(wireNs(costs), copyNs(costs)) + copyNs(costs) + (costs.overheadNs + costs.bounceNs) / abilities.eagerBytes),
  }),
};
