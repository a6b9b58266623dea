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
import { DataPath } from './data-path.js';
import { EngineQueuePair } from './engine-queue-pair.js';
import { WORDS } from './fast-path.js';
import type { End, EngineData, Notice, QueuePairRecord } from './messages.js';
import type { SharedReceiveMemory } from './shared-receive-memory.js';
import { Share } from './status-page.js';

/** Packets of a turn that are answered at the next one. */
const FEW = 2;

/** Timers are looked at after so many polls: reading the clock takes as long as half a poll. */
const POLLS_PER_LOOK = 32;

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
  readonly state: SharedArrayBuffer | undefined;
}

export class InlineEngine extends DataPath {
  /** What is to be told to the program when the turn is over. */
  readonly news: Notice[] = [];
  /** Packets that only the engine can deal with. */
  readonly foreign: { bytes: Uint8Array; words: Uint32Array }[] = [];
  /** Polls since timers were looked at. */
  private polls = 0;

  constructor(data: EngineData, door: Door) {
    super(data, door.addon, door.command.buffer as ArrayBuffer, Share.program);
    this.table.onInvalidate = (key) => this.notice({ kind: 'invalidated', key });
  }

  /** Takes over from the engine, in a turn, with views of its own on everything that the two share. */
  borrow(objects: DeviceObjects, connected: readonly number[]): void {
    this.bySlot.length = 0;
    this.byNumber.clear();
    this.table.clear();
    this.clearReady();
    this.fast.clear();
    this.timers = new EventQueue();
    for (const region of objects.regions) this.table.register(region);
    const slots = new Set(connected);
    for (const { record, attributes, peer, sendCq, recvCq, srq, state } of objects.queuePairs) {
      const qp = new EngineQueuePair(this, record, this.table.view(record.domain), sendCq, recvCq, srq);
      this.bySlot[record.slot] = qp;
      this.byNumber.set(record.qpNum, qp);
      if (!slots.has(record.slot) || state === undefined) continue;
      qp.shareState(state);
      qp.makeEndpoint(attributes, peer && this.pathTo(peer));
      this.touch(qp); // C is told what the state says
      qp.describe();
      this.markReady(qp);
    }
    this.finish();
  }

  /** The program polls. */
  poll(): void {
    if (this.hasReady) this.transmit();
    const packets = this.receive();
    if (packets > FEW) this.transmit();
    if (++this.polls >= POLLS_PER_LOOK) this.lookAtTimers();
    this.finish();
  }

  private lookAtTimers(): void {
    this.polls = 0;
    this.readClock();
    this.tick();
  }

  /** The program has posted to the queue pair of a slot. */
  rung(slot: number): void {
    this.bySlot[slot]?.rung();
    this.transmit();
    this.finish();
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
