/**
 * Who a worker is connected to: addresses and names, listeners, the endpoints by number, and the peers by number.
 *
 * An address lists the devices of a worker. The way to it is the best device that both have: shared memory when both are on one machine, else the first
 * network that is in both lists. Networks of the same kind on both sides (two NICs each) become further paths of the endpoint, for large transfers.
 */

import { type ConnectionRequest, VerbsError, type Listener as VerbsListener } from '../verbs/index.js';
import { Endpoint } from './endpoint.js';
import { MessagingError } from './errors.js';
import { Listener } from './listener.js';
import type { Port } from './port.js';
import { type CallOptions, late } from './request.js';
import { decodeAddress, encodeAddress, type WorkerAddress } from './wire/hello.js';
import { connectFailure, type Route, type WireUp } from './wire-up.js';
import type { Worker } from './worker.js';

/** Timers take no longer times. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The ways from a worker to a peer, best first: one by shared memory, or one for every pair of networks. Empty: they have no device in common. */
function routesTo(ports: readonly Port[], host: string, address: WorkerAddress): Route[] {
  const routes: (Route & { readonly isLocal: boolean })[] = [];
  const used = new Map<string, number>();
  for (const port of ports) {
    const { provider } = port.rail.device;
    const nth = used.get(provider) ?? 0;
    const theirs = address.devices.filter((device) => device.provider === provider)[nth];
    if (theirs === undefined) continue;
    used.set(provider, nth + 1);
    routes.push({ port, target: theirs.target, isLocal: port.rail.isLocal });
  }
  const local = routes.filter((route) => route.isLocal);
  const networks = routes.filter((route) => !route.isLocal);
  if (local.length > 0 && (address.host === host || networks.length === 0)) return local.slice(0, 1);
  return networks.filter(({ port }) => port.rail.device.provider === networks[0].port.rail.device.provider);
}

export class Connections {
  readonly #worker: Worker;
  readonly #ports: readonly Port[];
  readonly #host: string;
  readonly #wireUp: WireUp;
  readonly #listeners = new Set<Listener>();
  readonly #sources = new Map<string, number>();
  readonly #bySource: (Endpoint | undefined)[] = [];

  constructor(worker: Worker, ports: readonly Port[], wireUp: WireUp) {
    this.#worker = worker;
    this.#ports = ports;
    this.#host = Buffer.from(worker.context.host).toString('hex');
    this.#wireUp = wireUp;
    for (const port of ports) void this.#serve(port.service, port, (endpoint) => worker.onEndpoint?.(endpoint));
  }

  /** See Worker.address. */
  get address(): Uint8Array {
    const devices = this.#ports.map(({ rail, service }) => ({ provider: rail.device.provider, target: service.target }));
    return encodeAddress({ workerId: this.#worker.id, host: this.#host, devices });
  }

  /** See Worker.connect. */
  connect(to: string | Uint8Array): Endpoint {
    if (typeof to === 'string') return this.#prepare(`'${to}'`, [{ port: this.#portFor(to), target: to }]);
    const address = decodeAddress(to);
    const routes = routesTo(this.#ports, this.#host, address);
    if (routes.length === 0) {
      const theirs = address.devices.map(({ provider }) => provider).join(', ');
      const ours = this.#ports.map(({ rail }) => rail.device.provider).join(', ');
      throw new MessagingError(
        'MSG_INVALID',
        `the address is of a worker on '${theirs}', this one is on '${ours}': open the same device on both sides`,
      );
    }
    const source = this.#sources.get(address.workerId);
    const known = source === undefined ? undefined : this.#bySource[source];
    if (known?.state === 'ready' && !known.closedByPeer) return known;
    return this.#prepare(`'${routes[0].target}'`, routes);
  }

  /** A name with a host and a port is reached by a network, where there is one; others by the first device. */
  #portFor(name: string): Port {
    const isRemote = /^(\[[0-9a-fA-F:.%]+\]|[\w.-]+):\d+(\/|$)/.test(name);
    return (isRemote ? this.#ports.find(({ rail }) => !rail.isLocal) : undefined) ?? this.#ports[0];
  }

  #prepare(name: string, routes: readonly Route[]): Endpoint {
    const worker = this.#worker;
    const endpoint = this.makeEndpoint(name);
    endpoint.connect = () => {
      endpoint.connect = undefined;
      endpoint.state = 'connecting';
      this.#wireUp.initiate(endpoint, routes, Math.min(worker.timeoutMs, LONGEST_TIMER_MS)).catch((error: unknown) => {
        worker.endings.fail(endpoint, connectFailure(endpoint.peer, error));
      });
    };
    return endpoint;
  }

  /** See Worker.listen. */
  async listen(name: string): Promise<Listener> {
    const taken: VerbsListener[] = [];
    try {
      for (const { rail } of this.#ports) taken.push(await rail.device.listen(name));
    } catch (error) {
      for (const one of taken) one.close();
      throw error;
    }
    const listener = new Listener(name, taken, this.#worker.timeoutMs);
    this.#listeners.add(listener);
    taken.forEach((one, i) => void this.#serve(one, this.#ports[i], (endpoint) => listener.push(endpoint)));
    return listener;
  }

  async #serve(listener: VerbsListener, port: Port, arrived: (endpoint: Endpoint) => void): Promise<void> {
    try {
      for await (const request of listener) void this.#accept(request, port, arrived);
    } catch (error) {
      if (!this.#worker.closed && !(VerbsError.is(error) && error.code === 'VERBS_CLOSED')) throw error;
    }
  }

  async #accept(request: ConnectionRequest, port: Port, arrived: (endpoint: Endpoint) => void): Promise<void> {
    try {
      const endpoint = await this.#wireUp.accept(request, port);
      if (endpoint !== undefined) arrived(endpoint);
    } catch (error) {
      // When the initiator gave up or died meanwhile, it has its own error.
      if (MessagingError.is(error) && error.code === 'MSG_INVALID') this.#worker.unhandled(error);
    }
  }

  /** A new endpoint. */
  makeEndpoint(peer: string): Endpoint {
    const { endpoints } = this.#worker;
    const hole = endpoints.findIndex((endpoint) => !endpoint);
    const id = hole >= 0 ? hole : endpoints.length;
    const endpoint = new Endpoint(this.#worker, id, peer);
    endpoints[id] = endpoint;
    return endpoint;
  }

  /** The peer's number: the same for all endpoints to one worker. */
  identify(endpoint: Endpoint, workerId: string): void {
    let source = this.#sources.get(workerId);
    if (source === undefined) {
      source = this.#bySource.length;
      this.#sources.set(workerId, source);
      this.#bySource.push(endpoint);
    } else if (this.#bySource[source]?.state !== 'ready') {
      this.#bySource[source] = endpoint;
    }
    endpoint.source = source;
  }

  endpointOf(source: number): Endpoint | undefined {
    return this.#bySource[source];
  }

  /** An endpoint is out of use: another one to the same peer takes its place. False when there is none. */
  replace(endpoint: Endpoint, others: readonly Endpoint[]): boolean {
    if (endpoint.source < 0) return true;
    if (this.#bySource[endpoint.source] === endpoint) {
      this.#bySource[endpoint.source] = others.find((other) => other.source === endpoint.source);
    }
    return this.#bySource[endpoint.source] !== undefined;
  }

  /** See Endpoint.ready. */
  async whenReady(endpoint: Endpoint, options: CallOptions): Promise<void> {
    const { signal, timeoutMs = this.#worker.timeoutMs } = options;
    signal?.throwIfAborted();
    if (endpoint.state === 'ready') return;
    if (endpoint.state !== 'connecting') endpoint.check();
    const observed = this.#worker.onWait?.('connect', endpoint);
    await new Promise<void>((resolve, reject) => {
      const end = (act: () => void) => {
        observed?.();
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        const at = endpoint.whenReady.indexOf(waiter);
        if (at >= 0) endpoint.whenReady.splice(at, 1);
        act();
      };
      const waiter = { resolve: () => end(resolve), reject: (error: Error) => end(() => reject(error)) };
      const abort = () => end(() => reject(signal?.reason));
      const timer = late(timeoutMs, `no connection to ${endpoint.peer}`, (error) => end(() => reject(error)));
      signal?.addEventListener('abort', abort, { once: true });
      endpoint.whenReady.push(waiter);
      endpoint.connect?.();
    });
  }

  closeListeners(): void {
    for (const listener of this.#listeners) listener.close();
  }
}
