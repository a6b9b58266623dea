/**
 * The fabric: a network with speeds. Turns link roles into channel capacities and latencies, and ranks into places.
 *
 * Several ranks may share an endpoint (accelerators in a host). Traffic between them does not enter the network; it takes the
 * host's own switch, where every rank has one port each way:
 *
 * ```
 *   channels   0 .. 2 links - 1 | 2 links + 2 r          | 2 links + 2 r + 1
 *              the network        out-port of rank r       in-port of rank r       (inside hosts)
 * ```
 * Units inside the simulator: nanoseconds, bytes, bytes per nanosecond (= GB/s).
 */
import { PlanRefusal, requireInteger, requireNumber } from '../refusal.js';
import { makeRouter, type Router, type Routing } from '../routing/router.js';
import { type LinkRole, linkRoles, type Network } from '../topology/network.js';

export interface FabricOptions {
  /** Bytes per second of a link, one way. Default 25e9 (200 Gb/s). */
  readonly linkBytesPerSecond?: number;
  /** Different speeds by role of the link. Default none. */
  readonly roleBytesPerSecond?: Readonly<Partial<Record<LinkRole, number>>>;
  /** Nanoseconds from entering a link to leaving the switch behind it. Default 300. */
  readonly hopLatencyNs?: number;
  /** Nanoseconds of work per message at the sender, not overlapped with other messages of the same rank. Default 600. */
  readonly overheadNs?: number;
  /**
   * Nanoseconds per message after a rank's first one when the NIC starts it by itself (requests chained in advance, triggered by what arrives). Default: as
   * `overheadNs`, nothing is chained.
   */
  readonly triggeredNs?: number;
  /** Bytes per second at which a rank combines what it received. Default 100e9. */
  readonly reduceBytesPerSecond?: number;
  /** `cut-through`: hops overlap, links are shared max-min fairly. `store-and-forward`: whole messages, first come first served per link. Default cut-through. */
  readonly switching?: 'cut-through' | 'store-and-forward';
  /** Round the time a message occupies a link down to whole nanoseconds (some simulators do). Store-and-forward only. Default false. */
  readonly wholeNanoseconds?: boolean;
  /** Default minimal. */
  readonly routing?: Routing;
  /** Seed of hashed routing. Default 1. */
  readonly seed?: number;
  /** Ranks that share an endpoint. Default 1. */
  readonly ranksPerEndpoint?: number;
  /** Bytes per second of a rank's port inside its host. Default 300e9. */
  readonly hostBytesPerSecond?: number;
  /** Nanoseconds inside a host. Default 500. */
  readonly hostLatencyNs?: number;
}

export interface Fabric {
  readonly network: Network;
  readonly router: Router;
  readonly ranks: number;
  readonly options: Required<FabricOptions>;
  /** Bytes per nanosecond, per channel. */
  readonly capacity: Float64Array;
  /** Nanoseconds, per channel. */
  readonly latency: Float64Array;
  /** Channels from one place to another. Places are ranks, or vertices given as `size + ...` through `place`. */
  path(fromRank: number, toRank: number): number[];
  /** Puts a helper node (switch that reduces, server) on a vertex of the network. */
  place(node: number, vertex: number): void;
  vertexOf(node: number): number;
}

const fabricDefaults: Required<FabricOptions> = {
  linkBytesPerSecond: 25e9,
  roleBytesPerSecond: {},
  hopLatencyNs: 300,
  overheadNs: 600,
  triggeredNs: 600,
  reduceBytesPerSecond: 100e9,
  switching: 'cut-through',
  wholeNanoseconds: false,
  routing: 'minimal',
  seed: 1,
  ranksPerEndpoint: 1,
  hostBytesPerSecond: 300e9,
  hostLatencyNs: 500,
};

/** A fabric of `ranks` ranks on a network. Refuses more ranks than the endpoints hold, and unknown options. */
export function makeFabric(network: Network, ranks: number, given: FabricOptions = {}): Fabric {
  for (const name of Object.keys(given)) {
    if (!(name in fabricDefaults))
      throw new PlanRefusal(`the fabric has no option "${name}"; it has ${Object.keys(fabricDefaults).join(', ')}`);
  }
  const options: Required<FabricOptions> = {
    ...fabricDefaults,
    triggeredNs: given.overheadNs ?? fabricDefaults.overheadNs,
    ...given,
  };
  requireNumber('linkBytesPerSecond', options.linkBytesPerSecond, 1);
  requireNumber('hopLatencyNs', options.hopLatencyNs, 0);
  requireNumber('overheadNs', options.overheadNs, 0);
  requireNumber('triggeredNs', options.triggeredNs, 0);
  requireNumber('reduceBytesPerSecond', options.reduceBytesPerSecond, 1);
  const per = requireInteger('ranksPerEndpoint', options.ranksPerEndpoint, 1);
  requireInteger('ranks', ranks, 1, network.endpoints * per);

  const wires = 2 * network.links;
  const ports = per > 1 ? 2 * ranks : 0;
  const capacity = new Float64Array(wires + ports);
  const latency = new Float64Array(wires + ports);
  for (let channel = 0; channel < wires; channel++) {
    const role = linkRoles[network.role[channel >> 1]];
    capacity[channel] = (options.roleBytesPerSecond[role] ?? options.linkBytesPerSecond) / 1e9;
    latency[channel] = options.hopLatencyNs;
  }
  for (let port = wires; port < wires + ports; port++) {
    capacity[port] = options.hostBytesPerSecond / 1e9;
    latency[port] = port % 2 === 0 ? options.hostLatencyNs : 0;
  }

  const router = makeRouter(network, options.routing, { seed: options.seed });
  const placed = new Map<number, number>();
  const vertexOf = (node: number): number => {
    if (node < ranks) return Math.floor(node / per);
    const vertex = placed.get(node);
    if (vertex === undefined)
      throw new PlanRefusal(`node ${node} of the schedule is a switch or server and has no place in the network yet`);
    return vertex;
  };
  return {
    network,
    router,
    ranks,
    options,
    capacity,
    latency,
    vertexOf,
    path(from, to) {
      const [a, b] = [vertexOf(from), vertexOf(to)];
      if (a !== b) return router.route(a, b, from % per);
      return per > 1 && from < ranks && to < ranks && from !== to ? [wires + 2 * from, wires + 2 * to + 1] : [];
    },
    place(node, vertex) {
      placed.set(node, requireInteger('vertex', vertex, 0, network.vertices - 1));
    },
  };
}
