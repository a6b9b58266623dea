/**
 * The links of a simulated fabric: how long a packet takes on each, and whether a full queue drops it.
 *
 *     busyUntil ──┐
 *     now ────────┼── waits ──┼── on the wire: bytes / bandwidth ──┼── latency ──> next link
 *                 └ what waits is the queue: more than its capacity is dropped
 *
 * A packet asks for a link when it has arrived before it, so links are served in the order of arrival.
 */

/** One direction of a link. */
export interface LinkSpec {
  /** Default 100e9 (100 Gb/s). */
  readonly bitsPerSecond?: number;
  /** Default 500. */
  readonly latencyNs?: number;
  /** Bytes that may wait for the link; more are dropped. Default: no limit. */
  readonly queueBytes?: number;
  /** Bytes that wait for the link from which on packets are marked as congested (ECN). Default: never. */
  readonly markBytes?: number;
}

/** The plain topology value: links by index, and the links that a packet passes from one device to another. */
export interface NetworkSpec {
  readonly links: readonly LinkSpec[];
  /** Indices into `links`, in order. */
  path(from: number, to: number): readonly number[];
}

/** Every device has one link to and one from a single switch. Path: up-link of the sender, down-link of the receiver. */
export function starNetwork(devices: number, link: LinkSpec = {}): NetworkSpec {
  return { links: Array<LinkSpec>(2 * devices).fill(link), path: (from, to) => [2 * from, 2 * to + 1] };
}

class Link {
  readonly nsPerByte: number;
  readonly latencyNs: number;
  readonly queueNs: number;
  readonly markNs: number;
  busyUntil = 0;

  constructor(spec: LinkSpec) {
    this.nsPerByte = 8e9 / (spec.bitsPerSecond ?? 100e9);
    this.latencyNs = spec.latencyNs ?? 500;
    this.queueNs = (spec.queueBytes ?? Number.POSITIVE_INFINITY) * this.nsPerByte;
    this.markNs = (spec.markBytes ?? Number.POSITIVE_INFINITY) * this.nsPerByte;
  }
}

/** Dropped by a full queue. */
export const DROPPED = -1;

export class Network {
  private readonly spec: NetworkSpec | undefined;
  private readonly link: LinkSpec;
  private readonly links: Link[] = [];
  private readonly paths = new Map<number, readonly number[]>();
  /** The packet that passed last found a long queue. */
  isMarked = false;

  /** @param spec the topology; without one a star of links like `link`, which grows with the devices. */
  constructor(spec: NetworkSpec | undefined, link: LinkSpec) {
    this.spec = spec;
    this.link = link;
    for (const one of spec?.links ?? []) this.links.push(new Link(one));
  }

  /** How many links lie between two devices. A device reaches itself through its own links. */
  hops(from: number, to: number): number {
    return this.spec === undefined ? 2 : this.path(from, to).length;
  }

  /** Passes `bytes` over link number `hop` of the path and returns when they are at its end, an integer, or `DROPPED`. */
  pass(from: number, to: number, hop: number, bytes: number, now: number): number {
    const index = this.spec === undefined ? (hop === 0 ? 2 * from : 2 * to + 1) : this.path(from, to)[hop];
    while (this.links.length <= index) this.links.push(new Link(this.link));
    const link = this.links[index];
    const start = Math.max(now, link.busyUntil);
    // Before its own first link a packet waits in the sender's memory, which does not drop.
    if (hop > 0 && start - now > link.queueNs) return DROPPED;
    this.isMarked = hop > 0 && start - now > link.markNs;
    link.busyUntil = start + Math.ceil(bytes * link.nsPerByte);
    return link.busyUntil + link.latencyNs;
  }

  private path(from: number, to: number): readonly number[] {
    const key = from * 0x100000 + to;
    let path = this.paths.get(key);
    if (path === undefined) {
      path = (this.spec as NetworkSpec).path(from, to);
      this.paths.set(key, path);
    }
    return path;
  }
}
