/**
 * An endpoint of the verbs engine: two rings in each direction, one or more lanes, and what waits for room. It is wired up at the first use.
 */

import type { MemoryRegion, PreparedSend, QpAddress, RemoteRegion } from '../verbs/index.js';
import type { RemoteStart } from './endpoint.js';
import { Endpoint } from './endpoint.js';
import type { Lane, Posted } from './lane.js';
import { MAILBOX_BYTES, PeerMailbox } from './mailbox.js';
import { addressOfBuffer } from './memory/native-copy.js';
import { type RingPosts, RingReader, type RingShape, RingWriter, ringBytes } from './patterns/ring-region.js';
import type { Payload } from './payload.js';
import type { Port } from './port.js';
import type { ProtocolName } from './protocols/protocol.js';
import type { Range } from './protocols/selection.js';
import { VerbsRemoteMemory } from './rma/verbs-remote-memory.js';
import { BOARD_BYTES, ClaimBoard } from './transfer/claim-board.js';
import type { Transfer } from './transfer/transfer.js';
import type { VerbsWorker } from './verbs-worker.js';
import type { Hello } from './wire/hello.js';
import {
  CLOSED,
  INLINE_BYTES,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
  SLOT_WORDS,
  STREAM,
  STREAM_CREDIT,
  STREAM_END,
} from './wire/slot.js';

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

type Flush = RemoteStart & Posted;

/** A receive at the peer that wants a message which is held back here. */
export interface StandingPull {
  readonly context: number;
  readonly lo: number;
  readonly hi: number;
  readonly maskLo: number;
  readonly maskHi: number;
}

export class VerbsEndpoint extends Endpoint {
  readonly worker: VerbsWorker;
  /** The worker's port of every path. The first carries rings, remote memory and whatever is not split. */
  readonly ports: Port[] = [];
  /** Number of the peer's rail on the first path, -1 until connected: which part of a packed key is meant for it. */
  peerRail = -1;
  /** Number of the endpoint at the peer, -1 until connected. */
  peerToken = -1;
  /** This side asks for the connection; a request of the peer that crosses it may take its place. */
  initiates = false;
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
  #ringOutstanding = 0;
  /** Puts that were posted without a completion since the last flush. */
  smallPuts = 0;
  #flushRequest: PreparedSend | undefined;
  #flush: Flush | undefined;
  /** The peer's rings. */
  ringRemote: RemoteRegion = { addr: 0, length: 0, rkey: 0 };
  #mailbox: RemoteRegion = { addr: 0, length: 0, rkey: 0 };
  /** The peer writes nothing more: it answered our CLOSE, or it is gone. */
  peerIsDone = false;
  lastHeard = 0;
  mapped = false;
  ringRegion: MemoryRegion | undefined;
  mirrorRegion: MemoryRegion | undefined;
  creditsRegion: MemoryRegion | undefined;
  stagingRegion: MemoryRegion | undefined;
  /** Mapped rings only. */
  #peerMailbox: PeerMailbox | undefined;
  #creditPosts: { send: (ring: number, consumed: number) => void } | undefined;

  constructor(worker: VerbsWorker, id: number, peer: string) {
    super(id, peer);
    this.worker = worker;
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
    const mailbox = { addr: hello.mailboxAddress, length: MAILBOX_BYTES, rkey: hello.mailboxKey };
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
      this.#peerMailbox = new PeerMailbox(device.directAccess(address, mailbox));
      const { isRelaxed } = this.#peerMailbox;
      this.messagesOut = new RingWriter(view.subarray(0, theirHalf), theirs, isRelaxed);
      this.transfersOut = new RingWriter(view.subarray(theirHalf), theirs, isRelaxed);
      this.messagesOut.address = addressOfBuffer(view.buffer);
      this.messagesIn.address = addressOfBuffer((this.ringRegion as MemoryRegion).bytes.buffer);
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
    this.messagesOut = new RingWriter(
      mirror.bytes.subarray(0, theirHalf),
      theirs,
      false,
      posts(IMM_MESSAGES, 0, CREDIT_MESSAGES),
    );
    this.transfersOut = new RingWriter(
      mirror.bytes.subarray(theirHalf),
      theirs,
      false,
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

  /** Everything published lies in the peer's memory. */
  get isDelivered(): boolean {
    return this.#ringOutstanding === 0;
  }

  /** After publishing: wakes the peer if it sleeps. */
  announce(): void {
    if (this.#peerMailbox?.mustWake()) this.#wake();
  }

  /** The peer sleeps, as far as it has said. Mapped rings only. */
  get peerSleeps(): boolean {
    return this.#peerMailbox?.sleeps === true;
  }

  #wake(): void {
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

  protected remoteBegan(): void {
    this.port.operations++;
  }

  protected remoteEnded(): void {
    this.port.operations--;
  }

  /** Small puts make no completion each: one request behind them does. */
  protected beginFlush(): void {
    if (this.smallPuts === 0) return;
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

  unpack(packed: Uint8Array): VerbsRemoteMemory {
    return new VerbsRemoteMemory(this, packed);
  }

  get provider(): string {
    return this.port.rail.device.provider;
  }

  // ---- the stream ----

  get streamPiece(): number {
    return this.transfersOut.bulkBytes >> 2;
  }

  sendStream(payload: Payload, offset: number, count: number, isEnd: boolean): boolean {
    const ring = this.transfersOut;
    const slot = count <= INLINE_BYTES ? ring.reserve() : ring.reserveBulk(count);
    if (slot < 0) return false;
    const at = count <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : ring.bulkAt + ring.bulkOffset;
    payload.pack(offset, count, ring.u8, at);
    ring.i32[slot + S_KIND] = STREAM | (isEnd ? STREAM_END : 0);
    ring.i32[slot + S_LENGTH] = count;
    ring.i32[slot + S_BULK] = ring.bulkOffset;
    ring.publish(slot);
    this.announce();
    return true;
  }

  creditStream(count: number): void {
    this.control(STREAM_CREDIT, count, 0);
  }
}
