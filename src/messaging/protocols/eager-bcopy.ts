import { type CostLine, type Costs, copyNs, type Protocol, wireNs } from './protocol.js';

/**
 * The payload is copied into a bounce buffer, or straight into the bulk part of the receiver's ring where that is mapped; the receiver copies it out.
 * Two copies by CPUs; the second overlaps with the wire, so the slower of the two counts.
 */
export const eagerBcopy: Protocol = {
  name: 'eager-bcopy',
  summary: 'copied into the ring by the sender, out of it by the receiver',
  completion: 'at once: the bytes are in the ring or in a bounce buffer',
  stages: ['reserve a slot and bulk', 'copy the payload', 'publish', 'the receiver matches and copies out', 'credit returns'],
  unusable: () => undefined,
  range: (abilities) => ({ min: 0, max: abilities.eagerBytes }),
  cost: (costs: Costs): CostLine => ({
    fixedNs: costs.overheadNs + costs.bounceNs,
    nsPerByte: Math.max(wireNs(costs), copyNs(costs)) + copyNs(costs),
  }),
};
