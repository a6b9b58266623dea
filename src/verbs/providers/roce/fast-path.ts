/**
 * The data path's way into C: packets that are usual (native/rc-fast.h) go between the socket and the queue pairs without JavaScript.
 *
 *     receive ──> batch ──> carried out in C, in order ──> index of the first packet that is not usual ──> the machines of transport/ ──> continue
 *     send ──> packets of one queue pair into the batch, or -1: its machine knows ──> leave ──> to the socket
 *
 * Both work on the same numbers in shared memory (transport/state-copy.ts), the queues and the rings. Here they are described to C: structs of
 * fields of 8 bytes, addresses and numbers.
 */

import type { Addon } from '../../../native/addon.js';
import type { RoceCounters } from './counters.js';

/** As in native/datagram.h. */
export const SLOT = 4608;
export const WORDS = 12;
export const BATCH = 64;
export const MESSAGES = 16;
const MESSAGE_BYTES = 65536;
const PACKETS = 1024;

/** As in native/rc-fast.h and native/fast-path.h. */
const COUNTED = [
  ...(['packetsSent', 'packetsReceived', 'bytesSent', 'bytesReceived', 'retransmitted', 'operations', 'bytes'] as const),
  ...(['systemCalls', 'sendErrors', 'tooLong'] as const),
];
const MUST_RING = COUNTED.length;
const NOW = MUST_RING + 1;
const BATCH_PACKETS = NOW + 1;
const READY_COUNT = NOW + 2;
const READY = NOW + 3;
const TABLE = 4096;
const FIELDS = 9;

type Field = ArrayBufferView | number | bigint;

/** Writes fields of 8 bytes, and gives the address of the first. */
function fill(addon: Addon, words: BigUint64Array, fields: readonly Field[]): number {
  for (const [i, field] of fields.entries()) words[i] = BigInt(typeof field === 'object' ? addon.addressOf(field) : field);
  return addon.addressOf(words);
}

/** A queue pair, described to C. */
export class FastQueuePair {
  readonly qpNum: number;
  readonly address: number;
  /** Kept, because C has their addresses. */
  readonly fields: readonly Field[];
  readonly words: BigUint64Array;

  constructor(addon: Addon, qpNum: number, fields: readonly Field[]) {
    this.qpNum = qpNum;
    this.fields = fields;
    this.words = new BigUint64Array(fields.length);
    this.address = fill(addon, this.words, fields);
  }
}

/** What `FastPath.send` says: there are no more packets, there may be, or the queue pair's machine knows. */
export const Sent = { all: 0, some: 1, unknown: -1 } as const;

export class FastPath {
  readonly rx = new Uint8Array(MESSAGE_BYTES * MESSAGES);
  readonly rxWords = new Uint32Array(WORDS * PACKETS);
  readonly tx = new Uint8Array(SLOT * BATCH);
  readonly txWords = new Uint32Array(WORDS * BATCH);
  private readonly addon: Addon;
  /** Functions of the addon, which has so many that finding one takes time. */
  private readonly fastReceive: () => void;
  private readonly fastSend: () => void;
  private readonly command: Float64Array;
  private readonly datagram: number;
  private readonly numbers = new Float64Array(READY + PACKETS);
  private readonly table = new BigUint64Array(TABLE);
  private readonly words = new BigUint64Array(FIELDS);
  private regions: Float64Array | undefined;
  private address = 0;

  constructor(addon: Addon, command: Float64Array, datagram: number) {
    this.addon = addon;
    this.fastReceive = addon.fastReceive;
    this.fastSend = addon.fastSend;
    this.command = command;
    this.datagram = datagram;
  }

  /** Where registered memory is described. Before anything else, and when it has moved. */
  setRegions(regions: Float64Array, count: number): void {
    this.regions = regions;
    const { addon, numbers, datagram, rx, rxWords, tx, txWords, table } = this;
    this.address = fill(addon, this.words, [this.regions, count, numbers, datagram, rx, rxWords, tx, txWords, table]);
  }

  add(qp: FastQueuePair): void {
    this.table[qp.qpNum % TABLE] = BigInt(qp.address);
  }

  remove(qp: FastQueuePair): void {
    const at = qp.qpNum % TABLE;
    if (this.table[at] === BigInt(qp.address)) this.table[at] = 0n;
  }

  clear(): void {
    this.table.fill(0n);
  }

  /** Takes what the socket has, at most so many messages. Returns the index of the first packet that is left, or -errno. */
  receive(messages: number): number {
    const { command } = this;
    command[0] = this.address;
    command[1] = messages;
    this.fastReceive();
    return command[4];
  }

  /** Goes on with packet `from` of the batch. Returns the index of the next one that is left. */
  continue(from: number): number {
    const { command } = this;
    command[0] = this.address;
    command[1] = from;
    this.addon.fastContinue();
    return command[4];
  }

  /** A batch of one packet that does not come from the socket, and its descriptor. Returns what `receive` returns. */
  inject(bytes: Uint8Array, descriptor: Uint32Array, nowNs: number): number {
    this.rx.set(bytes);
    this.rxWords.set(descriptor);
    this.rxWords[8] = 0;
    this.numbers[BATCH_PACKETS] = 1;
    this.numbers[READY_COUNT] = 0;
    this.nowNs = nowNs;
    return this.continue(0);
  }

  /**
   * Packets of a queue pair, `limit` at most, behind the `count` that are in the batch. With `leaves` the batch goes to the socket then, unless its
   * machine knows more. Returns one of `Sent`; `batched` says how many packets there are now.
   */
  send(qp: FastQueuePair, limit: number, count: number, leaves: boolean): number {
    const { command } = this;
    command[0] = this.address;
    command[1] = qp.address;
    command[2] = limit;
    command[3] = count;
    command[5] = leaves ? 1 : 0;
    this.fastSend();
    return command[4];
  }

  /** Hands a batch to the kernel. What it does not take is lost, as on any network; the transport sends it again. */
  leave(count: number): void {
    const { command } = this;
    command[0] = this.address;
    command[1] = count;
    this.addon.fastLeave();
  }

  /** Packets in the batch after `send`. */
  get batched(): number {
    return this.command[5];
  }

  /** Packets of the last batch that came. */
  get packets(): number {
    return this.numbers[BATCH_PACKETS];
  }

  /** When packets came or went last, nanoseconds of the monotonic clock. */
  get nowNs(): number {
    return this.numbers[NOW];
  }

  set nowNs(ns: number) {
    this.numbers[NOW] = ns;
  }

  /** Queue pairs that got packets: how many, and their slots. */
  get readyCount(): number {
    return this.numbers[READY_COUNT];
  }

  ready(i: number): number {
    return this.numbers[READY + i];
  }

  /** Whether somebody sleeps on a queue that has got an entry; true once. */
  takeRing(): boolean {
    if (this.numbers[MUST_RING] === 0) return false;
    this.numbers[MUST_RING] = 0;
    return true;
  }

  /** Adds what was counted here. */
  count(into: RoceCounters): void {
    for (let i = 0; i < COUNTED.length; i++) {
      into[COUNTED[i]] += this.numbers[i];
      this.numbers[i] = 0;
    }
  }
}
