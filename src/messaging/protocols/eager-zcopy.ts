import { type CostLine, type Costs, copyNs, type Protocol, wireNs } from './protocol.js';

/** The device gathers the payload from the user's memory: no copy at the sender, one at the receiver. The memory must be registered. */
export const eagerZcopy: Protocol = {
  name: 'eager-zcopy',
  summary: 'the device takes the payload from the user, the receiver copies it out',
  completion: 'when the device has read the memory: until then it must not change',
  stages: [
    'find the registration',
    'post WRITE of the payload and of the slot',
    'the receiver matches and copies out',
    'credit returns',
  ],
  unusable: (abilities) =>
    abilities.directRing
      ? 'the ring is mapped and written by the CPU, so the copy into it is the transfer'
      : abilities.contiguous
        ? undefined
        : 'the memory is in pieces',
  range: (abilities) => ({ min: 0, max: abilities.eagerBytes }),
  cost: (costs: Costs): CostLine => ({
    fixedNs: costs.registrationNs + costs.overheadNs,
    nsPerByte: costs.registrationNsPerByte + Math.max(wireNs(costs), copyNs(costs)),
  }),
};
