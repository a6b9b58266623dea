/**
 * A network as a graph: endpoints, switches, links.
 *
 * Vertices are numbered endpoints first. A link is two channels, one per direction, because every cable here is full
 * duplex and a channel is what carries load:
 *
 * ```
 *   vertex   0 .. endpoints-1 | endpoints .. vertices-1
 *            endpoints          switches
 *
 *   link l   tail[2l] ──channel 2l──▶ head[2l]
 *            head[2l+1] ◀─channel 2l+1── tail[2l+1]        (the same two vertices, exchanged)
 *
 *   out-channels of vertex v:  outChannel[outStart[v] .. outStart[v+1]-1]
 * ```
 *
 * In a direct network (ring, torus) the endpoint holds its switch, so it is one vertex and forwards; elsewhere
 * endpoints have host links and do not forward. The cable class stands on the link, because the price of a network
 * is the sum over its cables, and the same topology is bought with different cables at different lengths.
 */

/** What a cable is made of: a trace on a board, passive copper (up to about 5 m), or active optics. */
export type CableClass = 'board' | 'dac' | 'aoc';
export const cableClasses: readonly CableClass[] = ['board', 'dac', 'aoc'];

/**
 * What a link is for. `host` joins an endpoint to its switch; the others join switches (or forwarding endpoints). A `global` link joins two
 * groups of a dragonfly: minimal routing takes at most one of them.
 */
export type LinkRole = 'host' | 'up' | 'core' | 'mesh' | 'wrap' | 'local' | 'global' | 'line';
export const linkRoles: readonly LinkRole[] = ['host', 'up', 'core', 'mesh', 'wrap', 'local', 'global', 'line'];

/** A grid of vertices with dimension-order routing: vertex = ((z * sizeY) + y) * sizeX + x for sizes [x, y, z]. */
export interface Grid {
  readonly sizes: readonly number[];
  readonly wrap: boolean;
}

export interface Network {
  readonly name: string;
  readonly endpoints: number;
  readonly vertices: number;
  readonly links: number;
  /** Whether endpoints pass traffic on (direct networks and boards of accelerators). */
  readonly endpointsForward: boolean;
  /** Vertex a channel leaves. Length 2 * links. */
  readonly tail: Int32Array;
  /** Vertex a channel enters. Length 2 * links. */
  readonly head: Int32Array;
  /** Index into `linkRoles`, per link. */
  readonly role: Uint8Array;
  /** Index into `cableClasses`, per link. */
  readonly cable: Uint8Array;
  readonly outStart: Int32Array;
  readonly outChannel: Int32Array;
  /** Position of each vertex for drawing, 0..1. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** Present when the network routes by dimension order. */
  readonly grid: Grid | undefined;
}

/** Collects vertices and links, then freezes them into a `Network`. */
export class NetworkBuilder {
  readonly #name: string;
  readonly #endpoints: number;
  readonly #tails: number[] = [];
  readonly #heads: number[] = [];
  readonly #roles: number[] = [];
  readonly #cables: number[] = [];
  readonly #x: number[] = [];
  readonly #y: number[] = [];
  #vertices: number;

  constructor(name: string, endpoints: number) {
    this.#name = name;
    this.#endpoints = endpoints;
    this.#vertices = endpoints;
  }

  /** Adds a switch and returns its vertex number. */
  addSwitch(x: number, y: number): number {
    const vertex = this.#vertices++;
    this.place(vertex, x, y);
    return vertex;
  }

  /** Gives a vertex its place in the drawing, 0..1 in both directions. */
  place(vertex: number, x: number, y: number): void {
    this.#x[vertex] = x;
    this.#y[vertex] = y;
  }

  /** Adds one full-duplex link. Parallel links are added once each. */
  addLink(a: number, b: number, role: LinkRole, cable: CableClass): void {
    this.#tails.push(a);
    this.#heads.push(b);
    this.#roles.push(linkRoles.indexOf(role));
    this.#cables.push(cableClasses.indexOf(cable));
  }

  build(options: { endpointsForward: boolean; grid?: Grid }): Network {
    const links = this.#tails.length;
    const vertices = this.#vertices;
    const tail = new Int32Array(2 * links);
    const head = new Int32Array(2 * links);
    const outStart = new Int32Array(vertices + 1);
    for (let link = 0; link < links; link++) {
      tail[2 * link] = head[2 * link + 1] = this.#tails[link];
      head[2 * link] = tail[2 * link + 1] = this.#heads[link];
      outStart[this.#tails[link] + 1]++;
      outStart[this.#heads[link] + 1]++;
    }
    for (let v = 0; v < vertices; v++) outStart[v + 1] += outStart[v];
    const fill = outStart.slice(0, vertices);
    const outChannel = new Int32Array(2 * links);
    for (let channel = 0; channel < 2 * links; channel++) outChannel[fill[tail[channel]]++] = channel;
    const x = new Float64Array(vertices);
    const y = new Float64Array(vertices);
    for (let v = 0; v < vertices; v++) {
      x[v] = this.#x[v] ?? 0;
      y[v] = this.#y[v] ?? 0;
    }
    return {
      name: this.#name,
      endpoints: this.#endpoints,
      vertices,
      links,
      endpointsForward: options.endpointsForward,
      tail,
      head,
      role: Uint8Array.from(this.#roles),
      cable: Uint8Array.from(this.#cables),
      outStart,
      outChannel,
      x,
      y,
      grid: options.grid,
    };
  }
}

/** Number of links at a vertex. */
export function degree(network: Network, vertex: number): number {
  return network.outStart[vertex + 1] - network.outStart[vertex];
}

/**
 * Links to cross from every vertex to `target` (-1 where there is no way), walking only through vertices that forward.
 */
export function distancesTo(network: Network, target: number): Int32Array {
  const distance = new Int32Array(network.vertices).fill(-1);
  const queue = new Int32Array(network.vertices);
  let tail = 0;
  distance[target] = 0;
  queue[tail++] = target;
  for (let front = 0; front < tail; front++) {
    const v = queue[front];
    if (v !== target && v < network.endpoints && !network.endpointsForward) continue;
    for (let i = network.outStart[v]; i < network.outStart[v + 1]; i++) {
      const w = network.head[network.outChannel[i]];
      if (distance[w] < 0) {
        distance[w] = distance[v] + 1;
        queue[tail++] = w;
      }
    }
  }
  return distance;
}

/** Longest shortest path between two endpoints, in links. Walks the graph: for checks and for small networks. */
export function walkedDiameter(network: Network): number {
  let longest = 0;
  for (let target = 0; target < network.endpoints; target++) {
    const distance = distancesTo(network, target);
    for (let source = 0; source < network.endpoints; source++) {
      if (distance[source] < 0) throw new Error(`${network.name}: endpoint ${source} cannot reach endpoint ${target}`);
      if (distance[source] > longest) longest = distance[source];
    }
  }
  return longest;
}
