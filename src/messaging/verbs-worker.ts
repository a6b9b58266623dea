/**
 * The worker of the verbs engine: a port on every device of its context, rings to every peer, protocols by cost. Who is connected stands in connections.ts,
 * what `poll` does in progress/poller.ts, how things end in endings.ts. It polls only devices that have endpoints, and nothing at all when nobody asks it to.
 */

import { randomBytes } from 'node:crypto';
import { ActiveMessages } from './am/active-messages.js';
import { Connections } from './connections.js';
import type { Context } from './context.js';
import { Endings } from './endings.js';
import { MessagingError } from './errors.js';
import { copyByAddress, NATIVE_COPY_BYTES } from './memory/native-copy.js';
import type { Registration } from './memory/registration-cache.js';
import { checkWorkerOptions, type WorkerOptions } from './options.js';
import type { RingReader, RingWriter } from './patterns/ring-region.js';
import { type Payload, payloadOf } from './payload.js';
import { Port } from './port.js';
import { Poller } from './progress/poller.js';
import { type Explanation, explainSelection } from './protocols/explanation.js';
import type { Abilities } from './protocols/protocol.js';
import { type Selection, select } from './protocols/selection.js';
import { EmulatedAtomics } from './rma/emulated-atomics.js';
import { RemoteOperations } from './rma/remote-operation.js';
import { VerbsExposedMemory } from './rma/verbs-remote-memory.js';
import { TagEngine } from './tag/tag-engine.js';
import { Rendezvous } from './transfer/rendezvous.js';
import type { VerbsEndpoint } from './verbs-endpoint.js';
import { INLINE_BYTES } from './wire/slot.js';
import { WireUp } from './wire-up.js';
import { Worker } from './worker.js';

/** Opens a worker and the services that take connections for it. */
export async function openVerbsWorker(context: Context, options: WorkerOptions): Promise<VerbsWorker> {
  checkWorkerOptions(options);
  const id = randomBytes(8).toString('hex');
  const ports: Port[] = [];
  try {
    for (const rail of context.rails) ports.push(new Port(rail, await rail.device.listen(`w/${id}/${rail.index}`)));
    return new VerbsWorker(context, options, id, ports);
  } catch (error) {
    for (const port of ports) port.close();
    throw error;
  }
}

export class VerbsWorker extends Worker {
  declare readonly endpoints: VerbsEndpoint[];
  readonly laneCount: number;
  readonly fragmentBytes: number;
  /** By number of the rail. */
  readonly ports: readonly Port[];
  readonly tags: TagEngine;
  readonly rendezvous: Rendezvous;
  readonly messages: ActiveMessages;
  readonly remoteOperations: RemoteOperations;
  readonly atomics: EmulatedAtomics;
  readonly connections: Connections;
  readonly endings: Endings;
  readonly poller: Poller;
  readonly #selections = new Map<VerbsEndpoint, Selection>();
  readonly #dropped: (registration: Registration) => void;

  constructor(context: Context, options: WorkerOptions, id: string, ports: readonly Port[]) {
    super(context, options, id);
    this.ports = ports;
    this.laneCount = options.lanes ?? 1;
    this.fragmentBytes = options.fragmentBytes ?? 512 << 10;
    this.tags = new TagEngine(this, this.requests, options.unexpectedBytes ?? 8 << 20, options.unexpectedMessages ?? 4096);
    this.rendezvous = new Rendezvous(this, this.requests);
    this.messages = new ActiveMessages(this, this.requests);
    this.remoteOperations = new RemoteOperations(this);
    this.atomics = new EmulatedAtomics(this);
    this.poller = new Poller(this, ports);
    const shape = { slots: options.ringSlots ?? 256, bulkBytes: options.ringBytes ?? 1 << 18 };
    const wireUp = new WireUp(this, shape, options.ring === 'immediate');
    this.endings = new Endings(this, wireUp);
    this.connections = new Connections(this, ports, wireUp);
    this.#dropped = (registration) => this.#forget(registration);
    for (const { registrations } of context.rails) registrations.dropped.add(this.#dropped);
  }

  /** Chooses the protocols of an endpoint, now that its rings and lanes are known. */
  #chooseProtocols(endpoint: VerbsEndpoint): void {
    const { costs } = endpoint.port.rail;
    const selection = select(costs, this.#abilities(endpoint, true), this.options);
    const inPieces = select(costs, this.#abilities(endpoint, false), {
      ...(this.options.rendezvousBytes === undefined ? {} : { rendezvousBytes: this.options.rendezvousBytes }),
    });
    this.#selections.set(endpoint, selection);
    endpoint.ranges = selection.ranges;
    endpoint.forced = this.options.protocol;
    endpoint.eagerMax = lastEager(selection);
    const zeroCopy = selection.ranges.find(({ protocol }) => protocol === 'eager-zcopy');
    endpoint.zeroCopyMin = Math.max(zeroCopy?.fromBytes ?? Number.POSITIVE_INFINITY, INLINE_BYTES + 1);
    endpoint.piecesEagerMax = lastEager(inPieces);
  }

  /** The endpoint is out of use. */
  forgetProtocols(endpoint: VerbsEndpoint): void {
    this.#selections.delete(endpoint);
  }

  /** The rings stand: what waited goes out. */
  becomeReady(endpoint: VerbsEndpoint): void {
    if (endpoint.state !== 'connecting') return; // it was closed meanwhile
    const { port } = endpoint;
    this.#chooseProtocols(endpoint);
    endpoint.state = 'ready';
    endpoint.lastHeard = performance.now();
    if (!endpoint.mapped) port.counted++;
    this.poller.live.push(endpoint);
    if (!port.rail.device.capabilities.peerDeath) this.endings.keepAlive();
    this.tags.sends.advance(endpoint);
    for (const waiter of endpoint.whenReady.splice(0)) waiter.resolve();
    this.driver.start();
  }

  #abilities(endpoint: VerbsEndpoint, contiguous: boolean): Abilities {
    return {
      shortBytes: INLINE_BYTES,
      eagerBytes: endpoint.messagesOut.bulkBytes >> 2,
      directRing: endpoint.mapped,
      read: true,
      write: true,
      lanes: endpoint.plannedLanes,
      fragmentBytes: this.fragmentBytes,
      contiguous,
    };
  }

  /** See Endpoint.explain. */
  explain(endpoint: VerbsEndpoint, operation: 'tag' | 'am', bytes: number): Explanation {
    const selection = this.#selections.get(endpoint);
    if (selection === undefined) {
      throw new MessagingError('MSG_INVALID', `the endpoint to ${endpoint.peer} is not connected: await ready() first`);
    }
    return explainSelection(operation, bytes, endpoint.port.rail.costs, selection, endpoint.forced);
  }

  /** Memory is not registered any more. */
  #forget(registration: Registration): void {
    for (const { lanes } of this.ports) for (const { lane } of lanes.values()) lane.forget(registration);
    this.forgetMemory(registration.buffer);
  }

  /** Copies into the bulk part of a ring. */
  copyIn(payload: Payload, offset: number, length: number, ring: RingWriter, bulk: number): void {
    if (length >= NATIVE_COPY_BYTES && payload.address !== 0 && ring.address !== 0) {
      copyByAddress(ring.address + ring.bulkAt + bulk, payload.address + offset, length);
    } else {
      payload.pack(offset, length, ring.u8, ring.bulkAt + bulk);
    }
  }

  /** Copies out of the bulk part of a ring. */
  copyOut(payload: Payload, offset: number, length: number, ring: RingReader, bulk: number): void {
    if (length >= NATIVE_COPY_BYTES && payload.address !== 0 && ring.address !== 0) {
      copyByAddress(payload.address + offset, ring.address + ring.bulkAt + bulk, length);
    } else {
      payload.unpack(offset, length, ring.u8, ring.bulkAt + bulk);
    }
  }

  expose(memory: ArrayBuffer | ArrayBufferView): VerbsExposedMemory {
    return new VerbsExposedMemory(this, payloadOf(memory).bytes);
  }

  protected addressOf(bytes: Uint8Array): number {
    const address = this.context.registrations.permanentAddress(bytes.buffer);
    return address === 0 ? 0 : address + bytes.byteOffset;
  }

  protected release(): void {
    for (const { registrations } of this.context.rails) registrations.dropped.delete(this.#dropped);
    for (const port of this.ports) port.close();
  }
}

/** The longest message that goes eager. */
function lastEager(selection: Selection): number {
  let most = -1;
  for (const range of selection.ranges) {
    if (!range.protocol.startsWith('eager')) break;
    most = range.toBytes - 1;
  }
  return Math.min(most, 2 ** 30);
}
