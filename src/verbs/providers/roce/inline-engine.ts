/**
 * The data path in the program's own thread, for as long as the program polls: packets are taken and sent by the very calls that post and
 * poll, and nothing is handed from thread to thread.
 *
 *     post ──> rung ──> packets out                 poll ──> packets out that are due, packets in, timers
 *     after every turn that changed a connection its state is put into shared memory: there the engine finds it when the program stops polling
 *
 * Answers to a few packets wait for the next call: a program that polls makes it at once, and one that answers by a request of its own has
 * both leave in one system call.
 */

import type { Door } from '../../../native/door.js';
import type { QpAttributes } from '../../qp-state.js';
import { EventQueue } from '../../transport/event-queue.js';
import type { RegionRecord } from './address-memory.js';
import type { CompletionRing } from './completion-ring.js';
import { DataPath, now, WORDS } from './data-path.js';
import { EngineQueuePair } from './engine-queue-pair.js';
import type { End, EngineData, Lending, Notice, QueuePairRecord } from './messages.js';
import type { SharedReceiveMemory } from './shared-receive-memory.js';
import { Share } from './status-page.js';

/** Packets of a turn that are answered at the next one. */
const FEW = 2;

/** Timers are looked at after so many polls that found nothing: reading the clock takes as long as half a poll. */
const POLLS_PER_LOOK = 16;

/** What a device has: the engine works on the same. */
export interface DeviceObjects {
  readonly regions: readonly RegionRecord[];
  readonly queuePairs: readonly BorrowedQueuePair[];
}

export interface BorrowedQueuePair {
  readonly record: QueuePairRecord;
  readonly attributes: QpAttributes;
  readonly peer: End | undefined;
  readonly sendCq: CompletionRing;
  readonly recvCq: CompletionRing;
  readonly srq: SharedReceiveMemory | undefined;
  readonly state: SharedArrayBuffer;
}

export class InlineEngine extends DataPath {
  /** What is to be told to the program when the turn is over. */
  readonly news: Notice[] = [];
  /** Packets that only the engine can deal with. */
  readonly foreign: { bytes: Uint8Array; words: Uint32Array }[] = [];
  /** Queue pairs that changed in this turn: the first `touchedCount`. */
  private readonly touched: EngineQueuePair[] = [];
  private touchedCount = 0;
  /** Polls in a row that found no packet. */
  private idlePolls = 0;
  /** From this thread's clock to the engine's. */
  private offsetNs = 0;

  constructor(data: EngineData, door: Door) {
    super(data, door.addon, door.command.buffer as ArrayBuffer, Share.program);
    this.table.onInvalidate = (key) => this.notice({ kind: 'invalidated', key });
  }

  /** Takes over from the engine, with views of its own on everything that the two share. */
  borrow(objects: DeviceObjects, lending: Lending): void {
    this.touchedCount = 0;
    this.bySlot.length = 0;
    this.byNumber.clear();
    this.table.clear();
    this.clearReady();
    this.timers = new EventQueue();
    this.offsetNs = lending.nowNs - now();
    for (const region of objects.regions) this.table.register(region);
    const connected = new Set(lending.slots);
    for (const { record, attributes, peer, sendCq, recvCq, srq, state } of objects.queuePairs) {
      const qp = new EngineQueuePair(this, record, this.table.view(record.domain), sendCq, recvCq, srq);
      this.bySlot[record.slot] = qp;
      this.byNumber.set(record.qpNum, qp);
      if (!connected.has(record.slot)) continue;
      qp.makeEndpoint(attributes, peer && this.pathTo(peer));
      qp.shareState(state);
      qp.loadState();
      this.markReady(qp);
    }
  }

  /** The program polls. */
  poll(): void {
    if (this.hasReady) this.transmit();
    const packets = this.receive();
    if (packets > FEW) this.transmit();
    if (packets === 0 && ++this.idlePolls >= POLLS_PER_LOOK) this.lookAtTimers();
    if (this.touchedCount > 0) this.finish();
  }

  private lookAtTimers(): void {
    this.idlePolls = 0;
    this.readClock();
    this.tick();
  }

  protected readClock(): void {
    this.nowNs = now() + this.offsetNs;
  }

  /** The program has posted to the queue pair of a slot. */
  rung(slot: number): void {
    this.readClock();
    this.bySlot[slot]?.rung();
    this.transmit();
    this.finish();
  }

  private finish(): void {
    const { touched } = this;
    this.stopOverrun();
    this.show();
    this.ringNow();
    for (let i = 0; i < this.touchedCount; i++) {
      touched[i].isTouched = false;
      touched[i].saveState();
    }
    this.touchedCount = 0;
  }

  protected override touch(qp: EngineQueuePair): void {
    if (qp.isTouched) return;
    qp.isTouched = true;
    this.touched[this.touchedCount++] = qp;
  }

  notice(notice: Notice): void {
    this.showNow();
    this.news.push(notice);
  }

  protected managed(i: number): void {
    const words = this.rxWords.slice(i * WORDS, (i + 1) * WORDS);
    this.foreign.push({ bytes: this.rx.slice(words[8], words[8] + words[0]), words });
  }
}
