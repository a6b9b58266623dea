/**
 * Who a worker is connected to: addresses and names, listeners, the endpoints by number, and the peers by number.
 *
 * An address lists the devices of a worker. The way to it is the best device that both have: shared memory when both are on one machine, else the first
 * network that is in both lists. Networks of the same kind on both sides (two NICs each) become further paths of the endpoint, for large transfers.
 */

import { VerbsError } from '../verbs/errors.js';
import type { ConnectionRequest, Listener as VerbsListener } from '../verbs/index.js';
import type { Connecting } from './engine.js';
import { MessagingError } from './errors.js';
import { Listener } from './listener.js';
import { Peers } from './peers.js';
import type { Port } from './port.js';
import { VerbsEndpoint } from './verbs-endpoint.js';
import type { VerbsWorker } from './verbs-worker.js';
import { decodeAddress, encodeAddress, type WorkerAddress } from './wire/hello.js';
import { connectFailure, type Route, type WireUp } from './wire-up.js';

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

export class Connections implements Connecting {
  readonly #worker: VerbsWorker;
  readonly #ports: readonly Port[];
  readonly #host: string;
  readonly #wireUp: WireUp;
  readonly #listeners = new Set<Listener>();
  readonly peers: Peers<VerbsEndpoint> = new Peers();

  constructor(worker: VerbsWorker, ports: readonly Port[], wireUp: WireUp) {
    this.#worker = worker;
    this.#ports = ports;
    this.#host = Buffer.from(worker.context.host).toString('hex');
    this.#wireUp = wireUp;
    for (const port of ports) void this.#serve(port.service, port, undefined);
  }

  /** See Worker.address. */
  get address(): Uint8Array {
    const devices = this.#ports.map(({ rail, service }) => ({ provider: rail.device.provider, target: service.target }));
    return encodeAddress({ workerId: this.#worker.id, host: this.#host, devices });
  }

  /** See Worker.connect. */
  connect(to: string | Uint8Array): VerbsEndpoint {
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
    const known = this.peers.known(address.workerId);
    if (known !== undefined) return known;
    const endpoint = this.#prepare(`'${routes[0].target}'`, routes);
    this.peers.expect(endpoint, address.workerId);
    return endpoint;
  }

  /** A name with a host and a port is reached by a network, where there is one; others by the first device. */
  #portFor(name: string): Port {
    const isRemote = /^(\[[0-9a-fA-F:.%]+\]|[\w.-]+):\d+(\/|$)/.test(name);
    return (isRemote ? this.#ports.find(({ rail }) => !rail.isLocal) : undefined) ?? this.#ports[0];
  }

  #prepare(name: string, routes: readonly Route[]): VerbsEndpoint {
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
    taken.forEach((one, i) => void this.#serve(one, this.#ports[i], listener));
    return listener;
  }

  /** Takes connections under a name, or by the worker's address, which does not keep the process from ending. */
  async #serve(service: VerbsListener, port: Port, listener: Listener | undefined): Promise<void> {
    const keepAlive = listener !== undefined;
    try {
      for (;;) void this.#accept(await service.accept({ keepAlive }), port, listener);
    } catch (error) {
      if (!this.#worker.closed && !(VerbsError.is(error) && error.code === 'VERBS_CLOSED')) throw error;
    }
  }

  async #accept(request: ConnectionRequest, port: Port, listener: Listener | undefined): Promise<void> {
    try {
      const endpoint = await this.#wireUp.accept(request, port, listener === undefined);
      if (endpoint === undefined) return;
      if (listener === undefined) this.#worker.onEndpoint?.(endpoint);
      else listener.push(endpoint);
    } catch (error) {
      // When the initiator gave up or died meanwhile, it has its own error.
      if (MessagingError.is(error) && error.code === 'MSG_INVALID') this.#worker.unhandled(error);
    }
  }

  /** A new endpoint. Its number is never used again. */
  makeEndpoint(peer: string): VerbsEndpoint {
    const { endpoints } = this.#worker;
    const endpoint = new VerbsEndpoint(this.#worker, endpoints.length, peer);
    endpoints.push(endpoint);
    return endpoint;
  }

  endpointOf(source: number): VerbsEndpoint | undefined {
    return this.peers.endpointOf(source);
  }

  closeListeners(): void {
    for (const listener of this.#listeners) listener.close();
  }
}
