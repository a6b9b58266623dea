/** An endpoint of the UCX engine: a number at each side, and the way to the peer's worker that all endpoints to it share. */

import { Endpoint } from '../endpoint.js';
import type { Payload } from '../payload.js';
import { UcxRemoteMemory } from './remote-memory.js';
import { CREDIT, MESSAGE_COST, ROOM, STREAM, STREAM_END, W_ENDPOINT, W_HI, W_KIND, W_LO, W_SEQUENCE } from './wire.js';
import type { UcxWorker } from './worker.js';

/** Most bytes of a stream in one message. */
const STREAM_BYTES = 8192;
/** The peer hears of room when so large a part of the window was taken. */
const ROOM_SHARE = 4;

export class UcxEndpoint extends Endpoint {
  readonly worker: UcxWorker;
  /** UCX's endpoint, or -1. */
  way = -1;
  /** Number of the endpoint at the peer. */
  peerId = -1;
  /** Messages sent, and taken in their turn; those that came before their turn. */
  sent = 0;
  heard = 0;
  early: Map<number, ArrayBuffer> | undefined;
  /** What was heard when somebody looked last, and how many looks ago that was more than before. */
  heardBefore = 0;
  silentLooks = 0;
  /** Counted messages in bytes: what the peer has room for, sent, known to be taken by it; taken here, and what the peer knows of that. */
  window = 0;
  #counted = 0;
  #takenThere = 0;
  #takenHere = 0;
  #told = 0;
  /** Sends that wait for the connection, as request handles. */
  readonly pending: (() => void)[] = [];
  /** Messages may be offered in shared memory: memory whose keys the peer has, by number, and the peer's. */
  isNear = false;
  readonly shared = new Set<number>();
  readonly offered = new Map<number, UcxRemoteMemory>();
  /** Puts were begun that nobody has heard the end of at the peer. */
  isUnflushed = false;

  constructor(worker: UcxWorker, id: number, peer: string) {
    super(id, peer);
    this.worker = worker;
  }

  /** Whether a message of this many bytes may go unasked; if so, it is counted. */
  count(bytes: number): boolean {
    const cost = bytes + MESSAGE_COST;
    if (((this.#counted - this.#takenThere) | 0) + cost > this.window) return false;
    this.#counted = (this.#counted + cost) | 0;
    return true;
  }

  /** The peer has taken so much in all. */
  onRoom(taken: number): void {
    this.#takenThere = taken;
  }

  /** A counted message of this many bytes is in its receive, or in the store. */
  took(bytes: number): void {
    this.#takenHere = (this.#takenHere + bytes + MESSAGE_COST) | 0;
    if (((this.#takenHere - this.#told) | 0) * ROOM_SHARE < this.worker.window || this.state !== 'ready') return;
    this.#told = this.#takenHere;
    this.control(ROOM, this.#takenHere);
  }

  get provider(): string {
    return 'ucx';
  }

  /** Fills the words of the next message's header. */
  address(kind: number, lo: number, hi: number): void {
    const { header } = this.worker.rings;
    header[W_KIND] = kind;
    header[W_ENDPOINT] = this.peerId;
    header[W_LO] = lo;
    header[W_HI] = hi;
    header[W_SEQUENCE] = this.sent;
    this.sent = (this.sent + 1) | 0;
  }

  /** Sends words alone. */
  control(kind: number, lo = 0): void {
    if (this.way < 0) return;
    this.address(kind, lo, 0);
    this.worker.rings.sendInline(this.way, 0, 0);
  }

  get streamPiece(): number {
    return STREAM_BYTES;
  }

  sendStream(payload: Payload, offset: number, count: number, isEnd: boolean): boolean {
    const { rings } = this.worker;
    this.address(isEnd ? STREAM | STREAM_END : STREAM, 0, 0);
    payload.pack(offset, count, rings.commandBytes, rings.inlineAt(0));
    return rings.sendInline(this.way, 0, count) >= 0;
  }

  creditStream(count: number): void {
    this.control(CREDIT, count);
  }

  unpack(packed: Uint8Array): UcxRemoteMemory {
    return new UcxRemoteMemory(this, packed);
  }

  protected remoteBegan(): void {}

  protected remoteEnded(): void {}

  protected beginFlush(): void {
    if (!this.isUnflushed) return;
    this.isUnflushed = false;
    const { rings } = this.worker;
    const result = rings.flush(this.way);
    if (result <= 0) return;
    this.beginRemote({ begin: () => {} });
    this.worker.track(result, undefined, -1, () => this.endRemote());
  }
}
