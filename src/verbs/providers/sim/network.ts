/**
 * The links of a simulated fabric: how long a packet takes, and whether a full queue drops it.
 *
 * A packet reserves every link of its path when it is sent: it waits until the link is free, occupies it for its length, and travels. So a
 * packet is one event, whatever the number of switches; links are served in the order of sending.
 *
 *     busyUntil ──┐
 *     now ────────┼── waits ──┼── on the wire: bytes / bandwidth ──┼── latency ──> next link
 *                 └ what waits is the queue: more than its capacity is dropped
 */

/** One direction of a link. */
export interface LinkSpec {
  /** Default 100e9 (100 Gb/s). */
  readonly bitsPerSecond?: number;
  /** Default 500. */
  readonly latencyNs?: number;
  /** Bytes that may wait for the link; more are dropped. Default: no limit. */
  readonly queueBytes?: number;
}

/** The plain topology value: links by index, and the links that a packet passes from one device to another. */
export interface NetworkSpec {
  readonly links: readonly LinkSpec[];
  /** Indices into `links`, in order. */
  path(from: number, to: number): readonly number[];
}

/** Every device has one link to and one from a single switch. Path: up-link of the sender, down-link of the receiver. */
export function starNetwork(devices: number, link: LinkSpec = {}): NetworkSpec {
  // The sender's own queue is its memory: it does not drop.
  const up: LinkSpec = { ...link, queueBytes: Number.POSITIVE_INFINITY };
  const links = Array.from({ length: 2 * devices }, (_, i) => (i % 2 === 0 ? up : link));
  return { links, path: (from, to) => [2 * from, 2 * to + 1] };
}

class Link {
  readonly nsPerByte: number;
  readonly latencyNs: number;
  readonly queueNs: number;
  busyUntil = 0;

  constructor(spec: LinkSpec) {
    this.nsPerByte = 8e9 / (spec.bitsPerSecond ?? 100e9);
    this.latencyNs = spec.latencyNs ?? 500;
    this.queueNs = (spec.queueBytes ?? Number.POSITIVE_INFINITY) * this.nsPerByte;
  }
}

/** Dropped by a full queue. */
export const DROPPED = -1;

export class Network {
  private readonly spec: NetworkSpec | undefined;
  private readonly link: LinkSpec;
  private readonly links: Link[] = [];
  private readonly paths = new Map<number, readonly number[]>();

  /** @param spec the topology; without one a star of links like `link`, which grows with the devices. */
  constructor(spec: NetworkSpec | undefined, link: LinkSpec) {
    this.spec = spec;
    this.link = link;
    for (const one of spec?.links ?? []) this.links.push(new Link(one));
  }

  /** Sends `bytes` at `now` and returns when they arrive, an integer, or `DROPPED`. A device reaches itself through its own two links. */
  send(from: number, to: number, bytes: number, now: number): number {
    if (this.spec === undefined) {
      const at = this.pass(2 * from, bytes, now, true);
      return this.pass(2 * to + 1, bytes, at, false);
    }
    const key = from * 0x100000 + to;
    let path = this.paths.get(key);
    if (path === undefined) {
      path = this.spec.path(from, to);
      this.paths.set(key, path);
    }
    let at = now;
    for (let i = 0; i < path.length && at !== DROPPED; i++) at = this.pass(path[i], bytes, at, i === 0);
    return at;
  }

  private pass(index: number, bytes: number, now: number, isFirst: boolean): number {
    let link = this.links[index];
    if (link === undefined) {
      while (this.links.length <= index) this.links.push(new Link(this.link));
      link = this.links[index];
    }
    const start = Math.max(now, link.busyUntil);
    if (!isFirst && start - now > link.queueNs) return DROPPED;
    link.busyUntil = start + Math.ceil(bytes * link.nsPerByte);
    return link.busyUntil + link.latencyNs;
  }
}
