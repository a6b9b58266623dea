import { type CostLine, type Costs, copyNs, type Protocol, wireNs } from './protocol.js';

/** The message rides in the slot, or inline in the work request: one cache line moves and nothing else. */
export const eagerShort: Protocol = {
  name: 'eager-short',
  summary: 'the payload rides in the slot of the ring',
  completion: 'at once: the bytes are in the ring',
  stages: ['reserve a slot', 'copy header and payload into it', 'publish'],
  unusable: () => undefined,
  range: (abilities) => ({ min: 0, max: abilities.shortBytes }),
  cost: (costs: Costs): CostLine => ({
    fixedNs: costs.overheadNs,
    nsPerByte: Math.max(wireNs(costs), copyNs(costs)) + copyNs(costs),
  }),
};
