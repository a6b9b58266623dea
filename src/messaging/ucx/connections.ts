/**
 * Who a worker on UCX is connected to. There is one way (a ucp_ep) to every peer's worker, made when it is first needed and kept; endpoints are numbers on it.
 *
 * ```
 *   connect:   HELLO (who I am, whom I want, UCX's address of my worker) ──>   a way back, an endpoint
 *              an endpoint that is ready                             <── WELCOME, or REFUSED
 *   address    0 version | 1 'U' | 2 bytes of the process | 10 worker id | 18 process, UCX's address
 * ```
 * UCX notices the death of a peer over a network, but not a cable that was cut: peers that are silent are asked for a sign of life. Its shared memory notices nothing, so peers of
 * this host are watched as processes, and one that dies may leave the worker deaf (hearing.ts).
 */

import { announce, inquire, type Withdraw } from '../../native/announcement.js';
import { VerbsError } from '../../verbs/errors.js';
import { ipText } from '../../verbs/ip-address.js';
import { checkName, parseTarget } from '../../verbs/providers/roce/service.js';
import type { Connecting } from '../engine.js';
import { MessagingError, PeerLost } from '../errors.js';
import { Listener } from '../listener.js';
import { Peers } from '../peers.js';
import { WIRE_VERSION } from '../wire/hello.js';
import { AddressServer, askAddress } from './address-server.js';
import { UcxEndpoint } from './endpoint.js';
import type { UcxFabric } from './fabric.js';
import { UcxHearing } from './hearing.js';
import { isAlive, isSameHost, processName } from './peer-process.js';
import { CLOSE, HELLO, PING, REFUSED, WELCOME } from './wire.js';
import type { UcxWorker } from './worker.js';

const MARK = 0x55;
const HEAD_BYTES = 18;
/** How often peers of this host are looked after, milliseconds. */
const WATCH_MS = 250;
/** A peer behind a network is asked for a sign of life so often in the time that it may be silent. */
const LOOKS = 4;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const DEAF = 'a peer was killed while it wrote into the memory that all of this host share: open another worker';

/** What HELLO and WELCOME say. */
interface Introduction {
  readonly label: string;
  readonly worker: string;
  /** Number of the endpoint at the sender. */
  readonly from: number;
  /** Bytes of messages that it takes from this peer unasked. */
  readonly window: number;
  /** HELLO: the sender's address, and the name that it wants, if it came by one. */
  readonly address?: string;
  readonly service?: string;
  /** REFUSED: why; `to` is the endpoint that asked. */
  readonly words?: string;
  readonly to?: number;
}

interface Way {
  readonly number: number;
  readonly process: string;
}

interface Address {
  readonly workerId: string;
  readonly process: string;
  /** UCX's own. */
  readonly bytes: Uint8Array;
}

function decode(packed: Uint8Array): Address {
  const blob = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  if (blob.length < HEAD_BYTES || blob[0] !== WIRE_VERSION || blob[1] !== MARK) {
    throw new MessagingError(
      'MSG_INVALID',
      "the address is of a worker on verbs, this one is on 'ucx': open the same engine on both sides",
    );
  }
  const end = HEAD_BYTES + blob.readUInt16LE(2);
  return {
    workerId: blob.toString('hex', 10, HEAD_BYTES),
    process: blob.toString('latin1', HEAD_BYTES, end),
    bytes: new Uint8Array(blob.subarray(end)),
  };
}

export class UcxConnections implements Connecting {
  readonly peers: Peers<UcxEndpoint> = new Peers();
  readonly address: Uint8Array;
  readonly hearing: UcxHearing;
  readonly #worker: UcxWorker;
  readonly #fabric: UcxFabric;
  readonly #ways = new Map<string, Way>();
  readonly #listeners = new Map<string, Listener>();
  #server: Promise<AddressServer> | undefined;
  #watchman: NodeJS.Timeout | undefined;
  #pinger: NodeJS.Timeout | undefined;
  #nextLook = 0;
  #nextPing = 0;

  constructor(worker: UcxWorker, fabric: UcxFabric) {
    this.#worker = worker;
    this.#fabric = fabric;
    this.hearing = new UcxHearing(worker, fabric, Math.ceil(this.#keepaliveMs / WATCH_MS));
    const own = Buffer.from(processName(), 'latin1');
    const head = Buffer.alloc(HEAD_BYTES);
    head[0] = WIRE_VERSION;
    head[1] = MARK;
    head.writeUInt16LE(own.length, 2);
    head.write(worker.id, 10, 'hex');
    this.address = new Uint8Array(Buffer.concat([head, own, worker.rings.native.address]));
  }

  get #text(): string {
    return Buffer.from(this.address).toString('base64');
  }

  // ---- connecting ----

  connect(to: string | Uint8Array): UcxEndpoint {
    if (typeof to === 'string') {
      checkName(to);
      return this.#prepare(`'${to}'`, () => this.#find(to));
    }
    const { workerId } = decode(to);
    const known = this.peers.known(workerId);
    if (known !== undefined) return known;
    const endpoint = this.#prepare(`worker ${workerId}`, async () => ({ packed: to, service: undefined }));
    this.peers.expect(endpoint, workerId);
    return endpoint;
  }

  #prepare(name: string, find: () => Promise<{ packed: Uint8Array; service: string | undefined }>): UcxEndpoint {
    const worker = this.#worker;
    const endpoint = this.#makeEndpoint(name);
    endpoint.connect = () => {
      endpoint.connect = undefined;
      endpoint.state = 'connecting';
      const timer = setTimeout(
        () => worker.endings.fail(endpoint, new MessagingError('MSG_TIMEOUT', `${endpoint.peer} did not answer`)),
        Math.min(worker.timeoutMs, LONGEST_TIMER_MS),
      );
      timer.unref();
      const stop = () => clearTimeout(timer);
      endpoint.whenReady.push({ resolve: stop, reject: stop });
      worker.driver.join();
      find()
        .then(({ packed, service }) => {
          if (endpoint.state !== 'connecting') return;
          endpoint.way = this.#wayTo(decode(packed));
          this.#introduce(endpoint.way, HELLO, {
            from: endpoint.id,
            address: this.#text,
            ...(service === undefined ? {} : { service }),
          });
          worker.driver.start();
        })
        .catch((error: unknown) => {
          const known = MessagingError.is(error) ? (error as Error) : new PeerLost(endpoint.peer, 'connecting', String(error));
          worker.endings.fail(endpoint, known);
        });
      endpoint.whenReady.push({ resolve: () => worker.driver.leave(), reject: () => worker.driver.leave() });
    };
    return endpoint;
  }

  /** Where a name listens, on this host or at an address. Throws MSG_REFUSED. */
  async #find(name: string): Promise<{ packed: Uint8Array; service: string }> {
    const { end, service } = parseTarget(name);
    let text: string;
    try {
      const patience = Math.min(this.#worker.timeoutMs, LONGEST_TIMER_MS);
      text = end === undefined ? await inquire('ucx', name, patience) : await askAddress(ipText(end.address), end.port);
    } catch (error) {
      const words = (error as Error).message;
      throw new MessagingError(
        'MSG_REFUSED',
        `nobody listens under '${name}': start the listener first, or give its target (${words})`,
      );
    }
    return { packed: Buffer.from(text, 'base64'), service: end === undefined ? name : service };
  }

  #introduce(way: number, kind: number, more: Partial<Introduction>): void {
    const { label, id, window, rings } = this.#worker;
    const text = Buffer.from(JSON.stringify({ label, worker: id, window, ...more }));
    if (kind !== WELCOME) rings.header[0] = kind;
    rings.commandBytes.set(text, rings.inlineAt(0));
    const result = rings.sendInline(way, 0, text.length);
    if (result < 0) throw new MessagingError('MSG_PEER_LOST', this.#fabric.words(result));
  }

  /** The way to a worker. Throws PeerLost. */
  #wayTo(address: Address): number {
    const key = Buffer.from(address.bytes).toString('base64');
    const known = this.#ways.get(key);
    if (known !== undefined) return known.number;
    const unreachable = (words: string) => new PeerLost(`worker ${address.workerId}`, 'connecting', words);
    const isHere = isSameHost(address.process);
    if (isHere && !isAlive(address.process)) throw unreachable('its process ended');
    const isNear = isHere && this.#fabric.sharesMemory;
    if (isNear && this.hearing.isDeaf) throw unreachable(DEAF);
    const { addon } = this.#fabric;
    const number = addon.connect(this.#worker.rings.native.handle, address.bytes, isNear ? 0 : 1);
    if (number < 0) {
      throw unreachable(
        `there is no way to it, ${this.#fabric.words(number)}: its process may be gone; check UCX_TLS on both sides`,
      );
    }
    this.#ways.set(key, { number, process: isNear ? address.process : '' });
    if (isNear) this.#watchman ??= setInterval(() => this.#lookAfter(), WATCH_MS).unref();
    else this.#pinger ??= setInterval(() => this.#askAwake(), this.#askEveryMs).unref();
    return number;
  }

  get #keepaliveMs(): number {
    return this.#worker.options.keepaliveMs ?? 10_000;
  }

  get #askEveryMs(): number {
    return this.#keepaliveMs / LOOKS;
  }

  /** What the timers do, where it is due: a thread that is blocked in polls calls it, since no timer runs there. */
  attend(): void {
    const now = performance.now();
    if (now < this.#nextLook) return;
    this.#nextLook = now + WATCH_MS;
    this.#lookAfter();
    this.#ask();
  }

  #lookAfter(): void {
    const near = [...this.#ways.values()].filter(({ process }) => process !== '');
    for (const { number, process } of near) {
      if (isAlive(process)) continue;
      if (this.#worker.endpoints.some(({ way, closedByPeer }) => way === number && !closedByPeer)) this.hearing.doubt();
      this.#wayLost(number, 'its process ended');
    }
    if (!this.hearing.look()) return;
    for (const { number } of near) {
      for (const endpoint of this.#worker.live) if (endpoint.way === number) endpoint.control(CLOSE);
      this.#wayLost(number, DEAF);
    }
  }

  #askAwake(): void {
    this.#worker.poll(); // what came while this thread was busy counts
    this.#ask();
  }

  /** Asks far peers for a sign of life, and gives those up that were asked LOOKS times and said nothing. UCX's TCP would wait a quarter of an hour. */
  #ask(): void {
    const now = performance.now();
    if (now < this.#nextPing) return;
    this.#nextPing = now + 0.9 * this.#askEveryMs; // a timer's turn comes a little early now and then
    for (const { number, process } of [...this.#ways.values()]) {
      const ends = process === '' ? this.#worker.live.filter(({ way }) => way === number) : [];
      for (const endpoint of ends) {
        const isSilent = endpoint.heard === endpoint.heardBefore;
        endpoint.heardBefore = endpoint.heard;
        endpoint.silentLooks = isSilent ? endpoint.silentLooks + 1 : 0;
        if (endpoint.silentLooks >= LOOKS && !this.#worker.vouchesFor?.(endpoint)) {
          this.wayFailed(number, `nothing was heard for ${this.#keepaliveMs} ms`);
          break;
        }
        endpoint.control(PING);
      }
    }
  }

  /** A way broke. */
  wayFailed(number: number, words: string): void {
    this.#wayLost(number, words);
    this.#fabric.addon.disconnect(this.#worker.rings.native.handle, number, 1);
  }

  #wayLost(number: number, words: string): void {
    for (const [key, way] of this.#ways) if (way.number === number) this.#ways.delete(key);
    for (const endpoint of [...this.#worker.endpoints]) {
      if (endpoint.way !== number) continue;
      this.#worker.endings.fail(endpoint, new PeerLost(endpoint.peer, 'an open endpoint', words));
    }
  }

  // ---- being connected to ----

  async listen(name: string): Promise<Listener> {
    checkName(name);
    this.#server ??= AddressServer.open(this.#text, this.#fabric.interfaces);
    const server = await this.#server;
    const withdraw: Withdraw | undefined = announce('ucx', name, this.#text);
    if (withdraw === undefined) throw new VerbsError('VERBS_BUSY', `somebody listens under '${name}' already`);
    const close = () => {
      withdraw();
      this.#listeners.delete(name);
    };
    const listener = new Listener(name, [{ target: server.targetOf(name), close }], this.#worker.timeoutMs);
    this.#listeners.set(name, listener);
    return listener;
  }

  /** Somebody introduced himself. */
  heard(kind: number, text: Uint8Array, endpoint: UcxEndpoint | undefined): void {
    const said = JSON.parse(Buffer.from(text).toString()) as Introduction;
    if (kind === HELLO) {
      try {
        this.#welcome(said);
      } catch (error) {
        if (!MessagingError.is(error) || error.code !== 'MSG_PEER_LOST') throw error; // else who asked is gone, and nobody here waits
      }
    } else if (kind === REFUSED) {
      const asked = this.#worker.endpoints[said.to as number];
      if (asked?.state === 'connecting') {
        this.#worker.endings.fail(asked, new MessagingError('MSG_REFUSED', `${asked.peer} refused: ${said.words}`));
      }
    } else if (endpoint?.state === 'connecting') {
      endpoint.peerId = said.from;
      this.#becomeReady(endpoint, said);
    }
  }

  #welcome(said: Introduction): void {
    const worker = this.#worker;
    const way = this.#wayTo(decode(Buffer.from(said.address as string, 'base64')));
    const listener = said.service === undefined ? undefined : this.#listeners.get(said.service);
    if (worker.closed || (said.service !== undefined && listener === undefined)) {
      this.#introduce(way, REFUSED, { to: said.from, words: `nobody listens under '${said.service}' there` });
      return;
    }
    const own = listener === undefined && said.worker !== worker.id ? this.peers.known(said.worker) : undefined;
    const isCrossing = own?.state === 'idle' || own?.state === 'connecting';
    // The peer takes the HELLO that is on its way to it, or has taken it (peers.ts).
    if (own?.state === 'connecting' ? worker.id < said.worker : own?.peerId === said.from) return;
    const endpoint = isCrossing ? own : this.#makeEndpoint(said.label);
    endpoint.connect = undefined;
    endpoint.way = way;
    endpoint.peerId = said.from;
    endpoint.address(WELCOME, 0, 0);
    this.#introduce(way, WELCOME, { from: endpoint.id });
    this.#becomeReady(endpoint, said);
    if (isCrossing) return;
    if (listener === undefined) worker.onEndpoint?.(endpoint);
    else listener.push(endpoint);
  }

  #becomeReady(endpoint: UcxEndpoint, said: Introduction): void {
    endpoint.peer = said.label;
    endpoint.window = said.window;
    endpoint.isNear = [...this.#ways.values()].some(({ number, process }) => number === endpoint.way && process !== '');
    endpoint.state = 'ready';
    this.peers.identify(endpoint, said.worker);
    this.#worker.live.push(endpoint);
    for (const send of endpoint.pending.splice(0)) send();
    for (const waiter of endpoint.whenReady.splice(0)) waiter.resolve();
    this.#worker.driver.start();
  }

  #makeEndpoint(peer: string): UcxEndpoint {
    const { endpoints } = this.#worker;
    const endpoint = new UcxEndpoint(this.#worker, endpoints.length, peer);
    endpoints.push(endpoint);
    return endpoint;
  }

  endpointOf(source: number): UcxEndpoint | undefined {
    return this.peers.endpointOf(source);
  }

  closeListeners(): void {
    for (const listener of [...this.#listeners.values()]) listener.close();
  }

  close(): void {
    const { addon } = this.#fabric;
    // Where UCX notices the death of peers it also lets go of what is under way; elsewhere it goes with the worker.
    for (const { number, process } of this.#ways.values()) {
      if (process === '') addon.disconnect(this.#worker.rings.native.handle, number, 1);
    }
    clearInterval(this.#watchman);
    clearInterval(this.#pinger);
    this.hearing.hush();
    void this.#server?.then((server) => server.close());
  }
}
