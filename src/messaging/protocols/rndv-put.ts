import { type Abilities, type CostLine, type Costs, handshakeNs, type Protocol, wireNs } from './protocol.js';

/**
 * RTS announces, RTR answers with the receiver's memory, the sender WRITEs and says ATP. One control message more than reading, so it is chosen
 * where READ is missing or slower, or when it is asked for.
 *
 * ```
 *   sender   --- RTS (tag, length) ------------------>   receiver matches
 *            <-- RTR (address, rkey) ----------------
 *            ========== RDMA WRITE ==================>
 *            --- ATP -------------------------------->    the receive is complete
 * ```
 */
export const rndvPut: Protocol = {
  name: 'rndv-put',
  summary: 'the sender writes into the memory of the receiver',
  completion: 'when the WRITE is complete: the sender keeps the data until then',
  stages: ['RTS', 'the receiver matches: RTR', 'find the registration, post WRITE', 'ATP'],
  unusable: (abilities: Abilities) =>
    !abilities.write ? 'the device has no WRITE' : abilities.contiguous ? undefined : 'the memory is in pieces',
  range: () => ({ min: 1, max: Number.POSITIVE_INFINITY }),
  cost: (costs: Costs): CostLine => ({
    fixedNs: costs.rendezvousPreference * (2 * costs.registrationNs + handshakeNs(costs) + costs.latencyNs + costs.overheadNs),
    nsPerByte: costs.rendezvousPreference * (2 * costs.registrationNsPerByte + wireNs(costs)),
  }),
};
