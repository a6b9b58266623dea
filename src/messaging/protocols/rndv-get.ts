import { type Abilities, type CostLine, type Costs, handshakeNs, type Protocol, wireNs } from './protocol.js';

/**
 * RTS tells where the memory is; the receiver READs it straight into its own and says ATS. No copy on either side.
 *
 * ```
 *   sender   --- RTS (tag, address, length, rkey) --->   receiver matches
 *            <========== RDMA READ ==================>
 *            <------------------ ATS ---------------      the send is complete
 * ```
 */
export const rndvGet: Protocol = {
  name: 'rndv-get',
  summary: 'the receiver reads the memory of the sender',
  completion: 'when the receiver has read it: the sender keeps the data until then',
  stages: ['find the registration', 'RTS', 'the receiver matches and posts READ', 'ATS'],
  unusable: (abilities: Abilities) =>
    !abilities.read ? 'the device has no READ' : abilities.contiguous ? undefined : 'the memory is in pieces',
  range: () => ({ min: 1, max: Number.POSITIVE_INFINITY }),
  cost: (costs: Costs): CostLine => ({
    fixedNs: costs.rendezvousPreference * (2 * costs.registrationNs + handshakeNs(costs)),
    nsPerByte: costs.rendezvousPreference * (2 * costs.registrationNsPerByte + wireNs(costs)),
  }),
};
