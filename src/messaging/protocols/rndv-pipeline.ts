import { type Abilities, type CostLine, type Costs, handshakeNs, type Protocol, wireNs } from './protocol.js';

/**
 * The READ is cut into fragments that go over all lanes at once, each lane in proportion to its speed. A lane that fails hands its fragments to
 * the others. The lanes' speeds add up; every fragment pays for its posting.
 */
export const rndvPipeline: Protocol = {
  name: 'rndv-pipeline',
  summary: 'the receiver reads fragments over all lanes at once',
  completion: 'when the receiver has read all of it: the sender keeps the data until then',
  stages: ['find the registration', 'RTS', 'the receiver matches and posts READs of fragments on every lane', 'ATS'],
  unusable: (abilities: Abilities) => {
    if (!abilities.read) return 'the device has no READ';
    if (!abilities.contiguous) return 'the memory is in pieces';
    return abilities.lanes > 1 ? undefined : 'the endpoint has one lane';
  },
  range: (abilities) => ({ min: abilities.fragmentBytes, max: Number.POSITIVE_INFINITY }),
  cost: (costs: Costs, abilities: Abilities): CostLine => ({
    fixedNs: costs.rendezvousPreference * (2 * costs.registrationNs + handshakeNs(costs) + abilities.lanes * costs.overheadNs),
    nsPerByte:
      costs.rendezvousPreference *
      (2 * costs.registrationNsPerByte + wireNs(costs) / abilities.lanes + costs.overheadNs / abilities.fragmentBytes),
  }),
};
