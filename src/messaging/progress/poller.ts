/**
 * What `poll` does: takes what lies in the rings, sends what waits for room, takes completions; and how a worker goes to sleep.
 *
 * ```
 *   poll():  for every endpoint      messages ring ──> tag matching        transfers ring ──> handlers by kind
 *                                    what waits for room goes on
 *            for every port in use   READs, WRITEs, immediates, failures   (looked at when something is outstanding, else now and then)
 * ```
 */

import { pause } from '../../native/pause.js';
import { WC_RECV, WC_RECV_RDMA_WITH_IMM } from '../../verbs/opcode.js';
import type { Progress } from '../engine.js';
import { PeerLost } from '../errors.js';
import type { RingReader } from '../patterns/ring-region.js';
import type { Port } from '../port.js';
import { KIND_AM, PENDING, type RequestRow } from '../requests.js';
import { IMM_MESSAGES, IMM_TRANSFERS, type VerbsEndpoint } from '../verbs-endpoint.js';
import type { VerbsWorker } from '../verbs-worker.js';
import {
  AM,
  AM_RTS,
  ATOMIC,
  ATOMIC_DONE,
  ATP,
  ATS,
  CLOSE,
  CLOSED,
  CREDIT,
  DATA,
  HELP,
  HELPED,
  INLINE_BYTES,
  PING,
  PONG,
  PULL,
  RTR,
  RTS,
  S_BULK,
  S_KIND,
  S_LENGTH,
  S_PAYLOAD,
  S_TAG_HI,
  S_TAG_LO,
  STREAM,
  STREAM_CREDIT,
  STREAM_END,
  UNPULL,
} from '../wire/slot.js';

/** Idle polls between two looks at the completion queues, less one. */
const IDLE_MASK = 255;
/** Slots taken from one ring in one poll, so that the others get their turn. */
const BATCH = 64;

export class Poller implements Progress {
  /** Endpoints that are connected. */
  readonly live: VerbsEndpoint[] = [];
  /** True while `poll` runs: a poll from within a handler does nothing. */
  isPolling = false;
  /** Times are noted when peers are heard. */
  isTiming = false;
  readonly #worker: VerbsWorker;
  readonly #ports: readonly Port[];
  #turn = 0;
  #wake: (() => void) | undefined;
  #sleepFailure: unknown;

  constructor(worker: VerbsWorker, ports: readonly Port[]) {
    this.#worker = worker;
    this.#ports = ports;
  }

  poll(): number {
    // A handler that waits would otherwise take the message again that it is being called for.
    if (this.isPolling) return 0;
    this.isPolling = true;
    try {
      let n = this.#pollRings();
      const ports = this.#ports;
      const isDue = (++this.#turn & IDLE_MASK) === 0;
      for (let i = 0; i < ports.length; i++) {
        const port = ports[i];
        if (port.operations > 0 || port.counted > 0 || (isDue && port.endpoints > 0)) n += this.#pollQueue(port);
      }
      if (isDue) this.#seldom();
      if (n === 0) pause();
      return n;
    } finally {
      this.isPolling = false;
    }
  }

  #seldom(): void {
    for (const { mailbox } of this.#ports) mailbox.awake();
    if (this.isTiming) this.#worker.endings.ask();
  }

  #pollRings(): number {
    const { live } = this;
    let n = 0;
    for (let i = 0; i < live.length; i++) {
      const endpoint = live[i];
      if (!endpoint.stuck && endpoint.messagesIn.peek() >= 0) n += this.#takeMessages(endpoint);
      else if (endpoint.stuck) n += this.#retry(endpoint);
      if (endpoint.transfersIn.peek() >= 0) n += this.#takeTransfers(endpoint);
      if (endpoint.waiting) n += this.#advance(endpoint);
    }
    return n;
  }

  #takeMessages(endpoint: VerbsEndpoint): number {
    const n = this.#worker.tags.takeMessages(endpoint);
    if (endpoint.messagesIn.takeStarved()) endpoint.control(CREDIT, 0, 0);
    if (!endpoint.mapped) endpoint.returnCredits(endpoint.messagesIn.peek() < 0);
    return n;
  }

  /** A stuck head: nothing changes until the store has room, but receives were perhaps posted. */
  #retry(endpoint: VerbsEndpoint): number {
    const { tags } = this.#worker;
    return tags.posted > 0 ? tags.scan(endpoint) : 0;
  }

  #takeTransfers(endpoint: VerbsEndpoint): number {
    const reader = endpoint.transfersIn;
    let n = 0;
    while (n < BATCH) {
      const slot = reader.peek();
      if (slot < 0) break;
      const length = reader.i32[slot + S_LENGTH];
      const kind = reader.i32[slot + S_KIND] & 0xff;
      this.#dispatch(endpoint, reader, slot, kind);
      if (endpoint.state !== 'ready' && endpoint.state !== 'closing') return n;
      const hasBulk = kind === DATA || kind === AM || kind === AM_RTS || kind === STREAM;
      reader.pass(hasBulk && length > INLINE_BYTES ? length : 0);
      n++;
    }
    reader.giveBack();
    if (this.isTiming) endpoint.lastHeard = performance.now();
    if (reader.takeStarved()) endpoint.control(CREDIT, 0, 0);
    if (!endpoint.mapped) endpoint.returnCredits(reader.peek() < 0);
    return n;
  }

  /** The peer is gone or has closed: what it sent before lies in the rings and counts. */
  takeRest(endpoint: VerbsEndpoint): void {
    const wasPolling = this.isPolling;
    this.isPolling = true;
    try {
      this.#worker.tags.takeRest(endpoint);
      while ((endpoint.state === 'ready' || endpoint.state === 'closing') && this.#takeTransfers(endpoint) > 0);
    } finally {
      this.isPolling = wasPolling;
    }
  }

  #dispatch(endpoint: VerbsEndpoint, reader: RingReader, slot: number, kind: number): void {
    const { i32 } = reader;
    const { rendezvous, tags, messages, endings } = this.#worker;
    switch (kind) {
      case RTS:
        tags.onOffer(endpoint, i32, slot);
        break;
      case RTR:
        rendezvous.onRtr(endpoint, i32, slot);
        break;
      case ATS:
        rendezvous.onAts(endpoint, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI]);
        break;
      case ATP:
        rendezvous.onAtp(endpoint, i32[slot + S_TAG_LO], i32[slot + S_TAG_HI]);
        break;
      case HELP:
        rendezvous.onHelp(endpoint, i32, slot);
        break;
      case HELPED:
        rendezvous.onHelped(endpoint, i32, slot);
        break;
      case DATA:
        rendezvous.onData(endpoint, i32, slot);
        break;
      case PULL:
        tags.sends.onPull(endpoint, i32, slot);
        break;
      case UNPULL:
        tags.sends.onUnpull(endpoint, i32[slot + S_TAG_LO]);
        break;
      case CREDIT:
      case PONG:
        break; // the wake-up was all
      case PING:
        endpoint.control(PONG, 0, 0);
        break;
      case CLOSE:
        endpoint.closedByPeer = true;
        endpoint.control(CLOSED, 0, 0);
        endings.closedByPeer(endpoint);
        break;
      case CLOSED:
        endpoint.peerIsDone = true;
        for (const wake of endpoint.whenClosed.splice(0)) wake();
        break;
      case AM:
        messages.onMessage(endpoint, reader, slot);
        break;
      case AM_RTS:
        messages.onAnnouncement(endpoint, reader, slot);
        break;
      case ATOMIC:
        this.#worker.atomics.onRequest(endpoint, i32, slot);
        break;
      case ATOMIC_DONE:
        this.#worker.atomics.onDone(endpoint, i32, slot);
        break;
      case STREAM:
        this.#streamBytes(endpoint, reader, slot);
        break;
      case STREAM_CREDIT:
        endpoint.stream.onCredit(i32[slot + S_TAG_LO]);
        break;
      default:
        endings.fail(
          endpoint,
          new PeerLost(endpoint.peer, 'receiving', `it sent a message of kind ${kind}, which is not known here`),
        );
    }
  }

  #streamBytes(endpoint: VerbsEndpoint, reader: RingReader, slot: number): void {
    const { i32 } = reader;
    const count = i32[slot + S_LENGTH];
    const at = count <= INLINE_BYTES ? (slot + S_PAYLOAD) << 2 : reader.bulkAt + i32[slot + S_BULK];
    endpoint.stream.onBytes(reader.u8, at, count, (i32[slot + S_KIND] & STREAM_END) !== 0);
  }

  /** Sends what waits for room. */
  #advance(endpoint: VerbsEndpoint): number {
    if (endpoint.state !== 'ready' && endpoint.state !== 'closing') return 0;
    const { requests, tags } = this.#worker;
    let n = 0;
    if (!endpoint.flushControls()) return n;
    const queue = endpoint.transferQueue;
    while (queue.length > 0) {
      const row = requests.find(queue[0]);
      if (row !== undefined && row.state === PENDING && !this.#advanceTransfer(endpoint, row)) break;
      queue.shift();
      n++;
    }
    if (endpoint.streamQueue.length > 0) n += endpoint.stream.advanceAll();
    n += tags.sends.advance(endpoint);
    endpoint.waiting = endpoint.controls.length + queue.length + endpoint.streamQueue.length + endpoint.pending.length > 0;
    return n;
  }

  #advanceTransfer(endpoint: VerbsEndpoint, row: RequestRow): boolean {
    const { messages, rendezvous } = this.#worker;
    if (row.kind === KIND_AM) return messages.advance(endpoint, row);
    return rendezvous.advanceData(endpoint, row);
  }

  /** Takes completions of a port, so that its send queues do not fill up. */
  reap(port: Port): void {
    if (!this.isPolling) this.#pollQueue(port);
  }

  #pollQueue(port: Port): number {
    const { cq, completions: wcs } = port;
    const n = cq.poll(wcs);
    let woken = false;
    for (let i = 0; i < n; i++) {
      const known = port.lanes.get(wcs.qpNum[i]);
      if (known === undefined) continue;
      const { endpoint, lane } = known;
      const status = wcs.status[i];
      if (status !== 0) {
        const words = cq.cause(wcs.causeId[i])?.words ?? 'the queue pair failed';
        if (wcs.opcode[i] < WC_RECV && wcs.id[i] > 0) lane.completed(wcs.id[i], status, words);
        this.#worker.endings.laneClosed(endpoint, lane, words);
      } else if (wcs.opcode[i] === WC_RECV_RDMA_WITH_IMM) {
        if (wcs.imm[i] === IMM_MESSAGES) endpoint.messagesIn.arrived++;
        else if (wcs.imm[i] === IMM_TRANSFERS) endpoint.transfersIn.arrived++;
        else woken = true;
        lane.postReceives(1);
      } else if (wcs.id[i] > 0) {
        lane.completed(wcs.id[i], 0, '');
      } else if (!endpoint.mapped) {
        endpoint.ringCompleted();
      }
    }
    if (woken && this.#worker.driver.asleep) {
      // This poll took the wake-up that was meant for the sleeping driver: ask for another, and look for what came in between.
      port.mailbox.arm(false);
      return n + this.#pollRings();
    }
    return n;
  }

  // ---- sleeping, for the driver ----

  /** Prepares to sleep. False when there is something to do after all. */
  arm(): boolean {
    this.#declare();
    for (const endpoint of this.live) {
      if (endpoint.messagesIn.takeStarved() || endpoint.transfersIn.takeStarved()) endpoint.control(CREDIT, 0, 0);
      if (!endpoint.mapped) endpoint.returnCredits(true);
    }
    this.#turn = IDLE_MASK; // the next poll looks at the completion queues too
    if (this.poll() === 0) return true;
    this.disarm();
    return false;
  }

  /** Something was begun while the worker sleeps: the peers must know what it waits for. */
  kick(): void {
    this.#declare();
    this.poll();
  }

  /** Tells the peers that this worker sleeps, and those that it waits for room. */
  #declare(): void {
    let isStarved = false;
    for (const endpoint of this.live) {
      if (!endpoint.waiting) continue;
      isStarved = true;
      endpoint.messagesOut.declareStarved();
      endpoint.transfersOut.declareStarved();
    }
    for (const { mailbox } of this.#ports) mailbox.arm(isStarved);
  }

  disarm(): void {
    for (const { mailbox } of this.#ports) mailbox.disarm();
  }

  /** Sleeps until something comes to a port. Ports that have no endpoint yet are waited for too: one may come while the worker sleeps. */
  async asleep(): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    for (const port of this.#ports) {
      if (port.isAwaited) continue;
      port.isAwaited = true;
      const ready = port.cq.ready().then(() => {
        // What the last endpoint left behind: nobody else takes it, and it would end every sleep at once.
        if (port.endpoints === 0) this.reap(port);
      });
      ready.then(
        () => this.#arrived(port),
        (error: unknown) => {
          if (!this.#worker.closed) this.#sleepFailure = error;
          this.#arrived(port);
        },
      );
    }
    await woken;
    if (this.#sleepFailure !== undefined) throw this.#sleepFailure;
  }

  #arrived(port: Port): void {
    port.isAwaited = false;
    this.#wake?.();
    this.#wake = undefined;
  }
}
