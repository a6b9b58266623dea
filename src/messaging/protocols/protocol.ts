/**
 * A protocol: one way to carry a message, as data. What it needs, what it costs over the message size, what its steps are.
 *
 * Costs are straight lines in nanoseconds. Selection (selection.ts) takes the lower envelope of the lines of those that can be used. Nothing
 * here does anything: the steps are carried out by the tag and active-message engines, which ask the selection once per endpoint.
 */

/** What a link and a machine cost. Measured by `verbena tune`, else defaults of costs.ts. */
export interface Costs {
  /** One way, an empty message, nanoseconds. */
  readonly latencyNs: number;
  /** Of the link, one way. Shared memory: of one copy by the CPU, because that copy is the wire. */
  readonly bytesPerSecond: number;
  /** Of a copy into or out of a bounce buffer or ring. */
  readonly copyBytesPerSecond: number;
  /** Work of one side for one message, nanoseconds. */
  readonly overheadNs: number;
  /** Taking and filling a bounce buffer or a bulk range, nanoseconds. */
  readonly bounceNs: number;
  /** Making memory known to the device: fixed part and growth. With a registration cache: finding it there, and 0. */
  readonly registrationNs: number;
  readonly registrationNsPerByte: number;
  /** Rendezvous times count this much: a near tie goes to rendezvous, which spares memory. 0.99 is 1 %. */
  readonly rendezvousPreference: number;
}

/** What an endpoint can do, as selection needs it. */
export interface Abilities {
  /** Bytes that ride in a slot or in the work request. */
  readonly shortBytes: number;
  /** Longest message that fits a bounce buffer or the bulk part of a ring. */
  readonly eagerBytes: number;
  /** The ring is written by the CPU (a mapped ring), so there is nothing a device could gather by itself. */
  readonly directRing: boolean;
  /** RDMA READ and WRITE of the peer's memory. */
  readonly read: boolean;
  readonly write: boolean;
  /** Queue pairs over which a large transfer can be split. */
  readonly lanes: number;
  /** Fragment of the pipelined scheme, bytes. */
  readonly fragmentBytes: number;
  /** Both buffers are one run of bytes. */
  readonly contiguous: boolean;
}

/** Time over message size: fixedNs + nsPerByte x bytes. */
export interface CostLine {
  readonly fixedNs: number;
  readonly nsPerByte: number;
}

export interface Protocol {
  readonly name: ProtocolName;
  /** One line: what happens. */
  readonly summary: string;
  /** When a send is complete, and who keeps the data until then. */
  readonly completion: string;
  /** The steps, in order. */
  readonly stages: readonly string[];
  /** Why it cannot be used here, or undefined. */
  unusable(abilities: Abilities): string | undefined;
  /** Sizes it can carry. */
  range(abilities: Abilities): { readonly min: number; readonly max: number };
  cost(costs: Costs, abilities: Abilities): CostLine;
}

/** The protocols; each has a file of its own beside this one. */
export type ProtocolName = 'eager-short' | 'eager-bcopy' | 'eager-zcopy' | 'rndv-get' | 'rndv-put' | 'rndv-pipeline' | 'rndv-am';

/** Nanoseconds for one byte of the link, and of a copy. */
export function wireNs(costs: Costs): number {
  return 1e9 / costs.bytesPerSecond;
}

export function copyNs(costs: Costs): number {
  return 1e9 / costs.copyBytesPerSecond;
}

/** What every rendezvous pays before data moves: two control messages, each there and back, and three times the work of a message. */
export function handshakeNs(costs: Costs): number {
  return 4 * costs.latencyNs + 3 * costs.overheadNs;
}
