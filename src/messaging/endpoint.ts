/**
 * An endpoint: the way to one peer. Two rings in each direction, one or more lanes, and what waits for room.
 *
 * It is made at once and wired up at the first use: what is sent before that waits in line. An endpoint is also what a peer's connection
 * becomes at the accepting side, so both sides can send.
 *
 * ```
 *   idle ──first use──> connecting ──> ready ──close()──> closing ──peer answered──> closed
 *                            └───────────┴── peer died, connection broke ──> failed
 * ```
 */

import { TSO } from '../native/ordering.js';
import type { MemoryRegion, PreparedSend, QpAddress, RemoteRegion } from '../verbs/index.js';
import { MessagingError, PeerLost } from './errors.js';
import type { Lane, Posted } from './lane.js';
import { addressOfBuffer } from './memory/native-copy.js';
import { type RingPosts, RingReader, type RingShape, RingWriter, ringBytes } from './patterns/ring-region.js';
import type { Data } from './payload.js';
import type { Port } from './port.js';
import type { Explanation } from './protocols/explanation.js';
import type { ProtocolName } from './protocols/protocol.js';
import type { Range } from './protocols/selection.js';
import type { CallOptions, Request } from './request.js';
import { RemoteMemory } from './rma/remote-memory.js';
import { EndpointStream } from './stream/endpoint-stream.js';
import type { Tag } from './tag/tag.js';
import { BOARD_BYTES, ClaimBoard } from './transfer/claim-board.js';
import type { Transfer } from './transfer/transfer.js';
import type { Hello } from './wire/hello.js';
import { CLOSED, S_KIND, S_TAG_HI, S_TAG_LO, SLOT_WORDS } from './wire/slot.js';
import type { Worker } from './worker.js';

export type EndpointState = 'idle' | 'connecting' | 'ready' | 'closing' | 'closed' | 'failed';

/** Which ring an immediate announces. */
const IMM_WAKE = 0;
export const IMM_MESSAGES = 1;
export const IMM_TRANSFERS = 2;

/** Words of the credits region: what the peer has consumed of each ring. */
const CREDIT_MESSAGES = 0;
const CREDIT_TRANSFERS = 16;
const CREDIT_BYTES = 128;
/** The credits, then the claim board. */
export const CREDIT_REGION_BYTES: number = CREDIT_BYTES + BOARD_BYTES;

/** A one-sided request that begins now or after a fence. */
export interface RemoteStart {
  begin(): void;
}

type Flush = RemoteStart & Posted;

/** Stands in line where a fence was asked for behind another. */
const FENCE: RemoteStart = { begin: () => {} };

/** A receive at the peer that wants a message which is held back here. */
export interface StandingPull {
  readonly context: number;
  readonly lo: number;
  readonly hi: number;
  readonly maskLo: number;
  readonly maskHi: number;
}

export class Endpoint {
  /** Number within the worker. */
  readonly id: number;
  readonly worker: Worker;
  state: EndpointState = 'idle';
  /** Who is at the other side. */
  peer: string;
  /** Number of the peer within the worker: the source of its messages. */
  source = -1;
  /** The worker's port of every path. The first carries rings, remote memory and whatever is not split. */
  readonly ports: Port[] = [];
  /** Number of the peer's rail on the first path, -1 until connected: which part of a packed key is meant for it. */
  peerRail = -1;
  readonly lanes: Lane[] = [];
  /** Lanes that there will be when all have joined. */
  plannedLanes = 1;
  // Rings; set when ready.
  messagesOut!: RingWriter;
  transfersOut!: RingWriter;
  messagesIn!: RingReader;
  transfersIn!: RingReader;
  /** Messages up to this size are eager; what is longer looks into `ranges`. */
  eagerMax = 0;
  ranges: readonly Range[] = [];
  /** Eager messages from this size on are taken by the device from the user's memory. */
  zeroCopyMin = Number.POSITIVE_INFINITY;
  /** For memory in pieces. */
  piecesEagerMax = 0;
  forced: ProtocolName | undefined;
  /** Sends that wait for room, as request handles, oldest first; #pendingHead of them are done. */
  readonly pending: number[] = [];
  pendingHead = 0;
  /** Requests with bulk for the transfers ring that wait for room. */
  readonly transferQueue: number[] = [];
  /** Slots for the transfers ring that wait for room: SLOT_WORDS words each. */
  readonly controls: Int32Array[] = [];
  /** True while anything of the three waits. */
  waiting = false;
  /** The receiver has no room for unexpected data: the head of messagesIn stays. */
  stuck = false;
  /** Slots of messagesIn behind the head that were taken out of turn. */
  taken: Uint8Array | undefined;
  /** What the peer's receives want of the sends that are held back here, by receive. */
  readonly pulls = new Map<number, StandingPull>();
  /** The send that is offered to the peer out of turn, or -1. */
  offered = -1;
  /** Transfers that are carried, oldest first, and those of them that the peer carries with, by entry of the board. */
  readonly carried: Transfer[] = [];
  readonly helped: (Transfer | undefined)[] = [];
  /** Where fragments are claimed: of what comes in, and of what goes out. Mapped rings only. */
  boardIn: ClaimBoard | undefined;
  boardOut: ClaimBoard | undefined;
  /** Stream writes that wait for the window or for room. */
  readonly streamQueue: number[] = [];
  /** One-sided requests under way, and those that wait behind a fence. */
  #remoteOutstanding = 0;
  #isFenced = false;
  readonly #fenced: RemoteStart[] = [];
  readonly #flushers: (() => void)[] = [];
  #stream: EndpointStream | undefined;
  #ringOutstanding = 0;
  /** Puts that were posted without a completion since the last flush. */
  smallPuts = 0;
  #flushRequest: PreparedSend | undefined;
  #flush: Flush | undefined;
  /** The peer's rings. */
  ringRemote: RemoteRegion = { addr: 0, length: 0, rkey: 0 };
  #mailbox: RemoteRegion = { addr: 0, length: 0, rkey: 0 };
  /** The peer said CLOSE: it takes nothing more. */
  closedByPeer = false;
  /** The peer writes nothing more: it answered our CLOSE, or it is gone. */
  peerIsDone = false;
  lastHeard = 0;
  failure: Error | undefined;
  mapped = false;
  ringRegion: MemoryRegion | undefined;
  mirrorRegion: MemoryRegion | undefined;
  creditsRegion: MemoryRegion | undefined;
  stagingRegion: MemoryRegion | undefined;
  #armed: Int32Array | undefined;
  #armedAt = 0;
  #creditPosts: { send: (ring: number, consumed: number) => void } | undefined;
  /** Resolvers of `ready()`. */
  readonly whenReady: { resolve: () => void; reject: (error: Error) => void }[] = [];
  readonly whenClosed: (() => void)[] = [];
  /** Starts the connection; replaced by nothing once started. */
  connect: (() => void) | undefined;

  constructor(worker: Worker, id: number, peer: string) {
    this.worker = worker;
    this.id = id;
    this.peer = peer;
  }

  /** The port of the first path. */
  get port(): Port {
    return this.ports[0];
  }

  // ---- wiring, called by the worker ----

  /** Sets up the rings. `mapped`: the peer's memory is reachable by loads and stores. */
  establish(lane: Lane, hello: Hello, shape: RingShape, mapped: boolean): void {
    const { port } = this;
    const { device, pd } = port.rail;
    const theirs: RingShape = { slots: hello.slots, bulkBytes: hello.bulkBytes };
    const remoteBytes = 2 * ringBytes(theirs);
    const ring = (this.ringRegion as MemoryRegion).bytes;
    const half = ringBytes(shape);
    this.mapped = mapped;
    this.messagesIn = new RingReader(ring.subarray(0, half), shape, !mapped);
    this.transfersIn = new RingReader(ring.subarray(half), shape, !mapped);
    const remote = { addr: hello.ringAddress, length: remoteBytes, rkey: hello.ringKey };
    this.ringRemote = remote;
    const mailbox = { addr: hello.mailboxAddress, length: 64, rkey: hello.mailboxKey };
    this.#mailbox = mailbox;
    lane.wake = lane.qp.prepare({
      opcode: 'RDMA_WRITE_WITH_IMM',
      local: port.scratch,
      remote: mailbox,
      signaledEvery: 16,
    });
    const theirHalf = ringBytes(theirs);
    if (mapped) {
      const address = { ...lane.qp.address(), av: lane.qp.query().av } as QpAddress;
      const view = device.directAccess(address, remote);
      this.messagesOut = new RingWriter(view.subarray(0, theirHalf), theirs);
      this.transfersOut = new RingWriter(view.subarray(theirHalf), theirs);
      this.messagesOut.address = addressOfBuffer(view.buffer);
      this.messagesIn.address = addressOfBuffer((this.ringRegion as MemoryRegion).bytes.buffer);
      const box = device.directAccess(address, mailbox);
      this.#armed = new Int32Array(box.buffer, box.byteOffset, 16);
      this.#armedAt = 0;
      const own = this.creditsRegion as MemoryRegion;
      this.boardIn = new ClaimBoard(own.bytes.subarray(CREDIT_BYTES));
      const theirBoard = { addr: hello.creditsAddress, length: CREDIT_REGION_BYTES, rkey: hello.creditsKey };
      this.boardOut = new ClaimBoard(device.directAccess(address, theirBoard).subarray(CREDIT_BYTES));
      return;
    }
    const mirror = pd.register(device.alloc(remoteBytes), { localWrite: true });
    this.mirrorRegion = mirror;
    const credits = new Int32Array(
      (this.creditsRegion as MemoryRegion).bytes.buffer,
      (this.creditsRegion as MemoryRegion).bytes.byteOffset,
      CREDIT_BYTES >> 2,
    );
    const posts = (imm: number, offset: number, creditAt: number): RingPosts => ({
      bulk: lane.qp.prepare({ opcode: 'RDMA_WRITE', local: mirror, remote, signaled: false }),
      slot: lane.qp.prepare({ opcode: 'RDMA_WRITE_WITH_IMM', local: mirror, remote }),
      credits,
      creditAt,
      imm,
      offset,
      posted: () => this.ringPosted(),
    });
    this.messagesOut = new RingWriter(mirror.bytes.subarray(0, theirHalf), theirs, posts(IMM_MESSAGES, 0, CREDIT_MESSAGES));
    this.transfersOut = new RingWriter(
      mirror.bytes.subarray(theirHalf),
      theirs,
      posts(IMM_TRANSFERS, theirHalf, CREDIT_TRANSFERS),
    );
    const staging = pd.register(device.alloc(CREDIT_BYTES), { localWrite: true });
    this.stagingRegion = staging;
    const words = new Int32Array(staging.bytes.buffer, staging.bytes.byteOffset, CREDIT_BYTES >> 2);
    // With an immediate, so that a sender that sleeps until there is room wakes up.
    const credit = lane.qp.prepare({
      opcode: 'RDMA_WRITE_WITH_IMM',
      local: staging,
      remote: { addr: hello.creditsAddress, length: CREDIT_BYTES, rkey: hello.creditsKey },
    });
    this.#creditPosts = {
      send: (at, consumed) => {
        words[at] = consumed;
        credit.imm = IMM_WAKE;
        credit.post(at * 4, 4, 0);
        this.ringPosted();
      },
    };
  }

  /** Hands over the memory of the rings: the endpoint is done with it. */
  takeRegions(): (MemoryRegion | undefined)[] {
    const regions = [this.ringRegion, this.creditsRegion, this.mirrorRegion, this.stagingRegion];
    this.ringRegion = undefined;
    this.creditsRegion = undefined;
    this.mirrorRegion = undefined;
    this.stagingRegion = undefined;
    return regions;
  }

  // ---- sending small things ----

  /** Immediate mode: a slot was posted. Until its completion comes somebody must make progress, or a receiver that is not ready would never be retried. */
  ringPosted(): void {
    const { driver } = this.worker;
    if (driver.asleep) this.port.cq.requestNotify(); // makes the device carry on what it has to retry
    if (this.#ringOutstanding++ > 0) return;
    driver.join();
    driver.ensure();
  }

  /** And its completion is here, or never comes. */
  ringCompleted(all = false): void {
    if (this.#ringOutstanding === 0) return;
    this.#ringOutstanding = all ? 0 : this.#ringOutstanding - 1;
    if (this.#ringOutstanding === 0) this.worker.driver.leave();
  }

  /** After publishing: wakes the peer if it sleeps. */
  announce(): void {
    const armed = this.#armed;
    if (armed !== undefined && (TSO ? armed[this.#armedAt] : Atomics.load(armed, this.#armedAt)) !== 0) this.#wake(armed);
  }

  /** The peer sleeps, as far as it has said. Mapped rings only. */
  get peerSleeps(): boolean {
    return this.#armed !== undefined && this.#armed[this.#armedAt] !== 0;
  }

  #wake(armed: Int32Array): void {
    if (Atomics.exchange(armed, this.#armedAt, 0) === 0) return;
    const { wake, alive } = this.lanes[0];
    if (wake === undefined || !alive) return;
    wake.imm = IMM_WAKE;
    wake.post(0, 0, 0);
  }

  /** Sends a control slot without bulk, now or when there is room. Words 2 and 3 are `a` and `b`; `more` fills words from 4 on. */
  control(kind: number, a: number, b: number, more?: ArrayLike<number>): void {
    if (this.state === 'failed' || this.state === 'closed' || (this.closedByPeer && kind !== CLOSED)) return;
    const ring = this.transfersOut;
    const slot = this.controls.length === 0 ? ring.reserve() : -1;
    const to = slot >= 0 ? ring.i32 : new Int32Array(SLOT_WORDS);
    const at = Math.max(slot, 0);
    to[at + S_KIND] = kind;
    to[at + S_TAG_LO] = a;
    to[at + S_TAG_HI] = b;
    if (more !== undefined) for (let i = 0; i < more.length; i++) to[at + 4 + i] = more[i];
    if (slot >= 0) {
      ring.publish(slot);
      this.announce();
    } else {
      this.controls.push(to);
      this.waiting = true;
    }
  }

  /** Sends control slots that waited. True when none is left. */
  flushControls(): boolean {
    const ring = this.transfersOut;
    let sent = 0;
    for (; sent < this.controls.length; sent++) {
      const slot = ring.reserve();
      if (slot < 0) break;
      ring.i32.set(this.controls[sent].subarray(1), slot + 1);
      ring.publish(slot);
    }
    if (sent > 0) {
      this.controls.splice(0, sent);
      this.announce();
    }
    return this.controls.length === 0;
  }

  /** Tells the sender what was consumed, when it is due; immediate mode. */
  returnCredits(force = false): void {
    const posts = this.#creditPosts;
    if (posts === undefined) return;
    this.#return(this.messagesIn, CREDIT_MESSAGES, force);
    this.#return(this.transfersIn, CREDIT_TRANSFERS, force);
  }

  #return(reader: RingReader, at: number, force: boolean): void {
    if (!(reader.creditDue || (force && reader.position !== reader.reported))) return;
    reader.reported = reader.position;
    reader.unreportedBytes = 0;
    this.#creditPosts?.send(at, reader.position);
  }

  // ---- remote memory ----

  /** Begins a one-sided request now, or after the fence. */
  beginRemote(start: RemoteStart): void {
    if (this.#isFenced) {
      this.#fenced.push(start);
      return;
    }
    this.#remoteOutstanding++;
    this.port.operations++;
    start.begin();
  }

  /** A one-sided request is over. */
  endRemote(): void {
    this.port.operations--;
    if (--this.#remoteOutstanding > 0) return;
    this.#isFenced = false;
    if (this.#fenced.length > 0) for (const start of this.#fenced.splice(0)) this.#resume(start);
    if (this.#remoteOutstanding === 0) for (const wake of this.#flushers.splice(0)) wake();
  }

  #resume(start: RemoteStart): void {
    if (start === FENCE) this.fence();
    else this.beginRemote(start);
  }

  /** Puts, gets and atomics begun after this take effect after all that were begun before. */
  fence(): void {
    if (this.smallPuts > 0) this.#flushSmallPuts();
    if (this.#fenced.length > 0) this.#fenced.push(FENCE);
    else if (this.#remoteOutstanding > 0) this.#isFenced = true;
  }

  /** Resolves when all puts, gets and atomics begun so far are complete at the peer. Throws MSG_TIMEOUT, the signal's reason. */
  async flush(options: CallOptions = {}): Promise<void> {
    const { worker } = this;
    if (this.smallPuts > 0) this.#flushSmallPuts();
    worker.poll();
    if (this.#remoteOutstanding + this.#fenced.length === 0) return;
    await worker.waitFor('flush', this, options, (settle) => {
      this.#flushers.push(settle);
    });
  }

  /** Small puts make no completion each: one request behind them does. */
  #flushSmallPuts(): void {
    this.smallPuts = 0;
    this.#flush ??= {
      begin: () => this.lanes[0].submit(this.#flush as Flush),
      post: (lane, id) => {
        this.#flushRequest ??= lane.qp.prepare({ opcode: 'RDMA_WRITE', local: this.port.scratch, remote: this.#mailbox });
        this.#flushRequest.post(0, 0, id);
      },
      done: () => this.endRemote(),
    };
    this.beginRemote(this.#flush);
  }

  /** Whether small puts may go at once. */
  get isFenced(): boolean {
    return this.#isFenced;
  }

  /** Memory of this peer, from the bytes that it packed. Throws MSG_INVALID for other bytes. The endpoint must be connected (`await ready()`). */
  unpack(packed: Uint8Array): RemoteMemory {
    return new RemoteMemory(this, packed);
  }

  // ---- the user's side ----

  /** The byte stream of this endpoint. */
  get stream(): EndpointStream {
    this.#stream ??= new EndpointStream(this, this.worker.options.streamWindowBytes ?? 1 << 18);
    return this.#stream;
  }

  /** Ends the stream with an error, if there is one. */
  failStream(error: Error): void {
    this.#stream?.fail(error);
  }

  /**
   * Sends an active message; resolves when the memory may be used again. Throws as `send`, and MSG_INVALID for a header longer than a quarter of the
   * peer's ring.
   */
  am(handler: number, header: Uint8Array, data: Data, options?: CallOptions): Promise<void> {
    return this.worker.am(this, handler, header, data, options);
  }

  /** Throws when the endpoint cannot be used any more. */
  check(): void {
    if (this.state === 'failed') throw this.failure ?? new PeerLost(this.peer, 'connecting', 'the endpoint failed');
    if (this.state === 'closed' || this.state === 'closing') {
      throw new MessagingError('MSG_CLOSED', `the endpoint to ${this.peer} is closed`);
    }
    if (this.closedByPeer) throw new PeerLost(this.peer, 'sending', 'it closed the endpoint');
  }

  /** Resolves when connected. Throws what connecting throws, MSG_TIMEOUT, or the signal's reason. */
  ready(options: CallOptions = {}): Promise<void> {
    return this.worker.connections.whenReady(this, options);
  }

  /** Sends a tagged message; resolves when the memory may be used again. Throws PeerLost, MSG_CLOSED, MSG_TIMEOUT, the signal's reason. */
  send(tag: Tag, data: Data, options?: CallOptions): Promise<void> {
    return this.worker.send(this, tag, data, options);
  }

  /**
   * The callback form: begins a send and returns its request, or undefined when it is complete already (then `done` was not called).
   */
  sendBegin(tag: Tag, data: Data, done?: (error: Error | undefined) => void): Request | undefined {
    return this.worker.sendBegin(this, tag, data, done);
  }

  /** How a message of this size would go, and why. Operation: 'tag' or 'am'. Throws until connected (`await ep.ready()`). */
  explain(operation: 'tag' | 'am', bytes: number): Explanation {
    return this.worker.explain(this, operation, bytes);
  }

  /**
   * Closes the endpoint. Graceful (default): what was sent arrives first. Forced: outstanding requests fail with MSG_CLOSED at once. Idempotent.
   */
  close(options: CallOptions & { force?: boolean } = {}): Promise<void> {
    return this.worker.closeEndpoint(this, options);
  }
}
