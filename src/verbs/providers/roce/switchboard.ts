/**
 * The words that the program's thread and the engine's thread share for a device, and who may wake whom.
 *
 *     program ── call: message on the port, COMMANDS + 1 ──> engine ── answer on the port, ANSWERS + 1 ──> program (sleeps on ANSWERS)
 *     program ── post: slot of the queue pair into the doorbells ──> engine            slot flag set: it is in there already
 *     engine  ── notice on the port, NOTICES + 1, bell ──> program
 *
 *     doorbells  [ 3 | 17 | 4 |   |   ]     one producer, one consumer; a queue pair is in it at most once, so it cannot overflow
 *                  ^ head       ^ tail
 *
 * The data path belongs to the engine, or is lent to the program; a program that is in the middle of a turn cannot lose it:
 *
 *     OWNER:  engine ── lend ──> program <── enter, leave ──> turn          HEARTBEAT counts turns
 *               ^ ── takeBack, giveBack ────┘
 *
 * The engine sleeps in the socket's wait: SLEEPING is 1, everything is looked at once more, then it sleeps. Who has something for it
 * publishes, then looks at SLEEPING.
 */

import { acquire, release } from '../../../native/ordering.js';

const COMMANDS = 0;
const ANSWERS = 1;
const SLEEPING = 2;
const NOTICES = 3;
const RUNG = 4;
const STOP = 5;
const DOORBELL_HEAD = 6;
const DOORBELL_TAIL = 7;
const DEAD = 8;
const OWNER = 9;
const HEARTBEAT = 10;
const DOORBELLS = 16;

const Owner = { engine: 0, program: 1, turn: 2 } as const;

/** Queue pairs of a device at most. */
export const MAX_QUEUE_PAIRS = 16384;

export class Switchboard {
  private readonly words: Int32Array;
  /** 1: the queue pair of this slot is among the doorbells. */
  private readonly rung: Int32Array;
  private seenCommands = 0;
  private seenNotices = 0;

  static make(): SharedArrayBuffer {
    return new SharedArrayBuffer(4 * (DOORBELLS + 2 * MAX_QUEUE_PAIRS));
  }

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer, 0, DOORBELLS + MAX_QUEUE_PAIRS);
    this.rung = new Int32Array(buffer, 4 * (DOORBELLS + MAX_QUEUE_PAIRS), MAX_QUEUE_PAIRS);
  }

  // ---- program ----

  /** A queue pair has requests. True when the engine sleeps and must be woken. */
  ringDoorbell(slot: number): boolean {
    const { words } = this;
    if (Atomics.exchange(this.rung, slot, 1) === 0) {
      const tail = words[DOORBELL_TAIL];
      words[DOORBELLS + (tail & (MAX_QUEUE_PAIRS - 1))] = slot;
      Atomics.store(words, DOORBELL_TAIL, (tail + 1) | 0);
    }
    return this.takeSleep();
  }

  /** A command is on the port. True when the engine must be woken. */
  announceCommand(): boolean {
    Atomics.add(this.words, COMMANDS, 1);
    return this.takeSleep();
  }

  private takeSleep(): boolean {
    return Atomics.load(this.words, SLEEPING) === 1 && Atomics.compareExchange(this.words, SLEEPING, 1, 0) === 1;
  }

  get answers(): number {
    return Atomics.load(this.words, ANSWERS);
  }

  /** Sleeps until there are other answers than `seen`, or the engine is gone. False when the time has passed. */
  awaitAnswer(seen: number, timeoutMs: number): boolean {
    return Atomics.wait(this.words, ANSWERS, seen, timeoutMs) !== 'timed-out';
  }

  /** How many notices have come since the last call. */
  takeNotices(): number {
    const now = acquire(this.words, NOTICES);
    const count = (now - this.seenNotices) | 0;
    this.seenNotices = now;
    return count;
  }

  /** The bell was heard: the next one must ring again. */
  hearBell(): void {
    Atomics.store(this.words, RUNG, 0);
  }

  /** Starts a turn of the program on the data path. False when the engine has taken it back. */
  enter(): boolean {
    return Atomics.compareExchange(this.words, OWNER, Owner.program, Owner.turn) === Owner.program;
  }

  /** Ends a turn. */
  leave(): void {
    this.words[HEARTBEAT] = (this.words[HEARTBEAT] + 1) | 0;
    release(this.words, OWNER, Owner.program);
  }

  /** The program returns the data path. The engine notices when it is woken. */
  giveBack(): void {
    Atomics.compareExchange(this.words, OWNER, Owner.program, Owner.engine);
  }

  stop(): void {
    Atomics.store(this.words, STOP, 1);
  }

  get isDead(): boolean {
    return Atomics.load(this.words, DEAD) !== 0;
  }

  // ---- engine ----

  /** A slot whose queue pair has requests, or -1. */
  takeDoorbell(): number {
    const { words } = this;
    const head = words[DOORBELL_HEAD];
    if (acquire(words, DOORBELL_TAIL) === head) return -1;
    const slot = words[DOORBELLS + (head & (MAX_QUEUE_PAIRS - 1))];
    Atomics.store(words, DOORBELL_HEAD, (head + 1) | 0);
    Atomics.store(this.rung, slot, 0);
    return slot;
  }

  takeCommand(): boolean {
    if (acquire(this.words, COMMANDS) === this.seenCommands) return false;
    this.seenCommands = (this.seenCommands + 1) | 0;
    return true;
  }

  announceAnswer(): void {
    Atomics.add(this.words, ANSWERS, 1);
    Atomics.notify(this.words, ANSWERS);
  }

  /** A notice is on the port. */
  announceNotice(): void {
    Atomics.add(this.words, NOTICES, 1);
  }

  /** True when the program's bell is to be rung: nobody has since it was heard. */
  takeBell(): boolean {
    return Atomics.exchange(this.words, RUNG, 1) === 0;
  }

  get isStopped(): boolean {
    return acquire(this.words, STOP) !== 0;
  }

  /** About to sleep. False when there is something to do first. */
  fallAsleep(): boolean {
    const { words } = this;
    Atomics.store(words, SLEEPING, 1);
    const isIdle =
      Atomics.load(words, COMMANDS) === this.seenCommands &&
      Atomics.load(words, DOORBELL_TAIL) === words[DOORBELL_HEAD] &&
      Atomics.load(words, STOP) === 0;
    if (!isIdle) Atomics.store(words, SLEEPING, 0);
    return isIdle;
  }

  /** Lends the data path to the program. */
  lend(): void {
    Atomics.store(this.words, OWNER, Owner.program);
  }

  /** The engine takes the data path back. False in the middle of a turn. */
  takeBack(): boolean {
    const found = Atomics.compareExchange(this.words, OWNER, Owner.program, Owner.engine);
    return found !== Owner.turn;
  }

  /** The word that counts the program's turns. */
  get heartbeat(): Int32Array {
    return this.words.subarray(HEARTBEAT, HEARTBEAT + 1);
  }

  /** About to sleep while the data path is lent. False when it is lent no longer. */
  fallAsleepLent(): boolean {
    Atomics.store(this.words, SLEEPING, 1);
    const isLent = Atomics.load(this.words, OWNER) !== Owner.engine;
    if (!isLent) this.awake();
    return isLent;
  }

  awake(): void {
    Atomics.store(this.words, SLEEPING, 0);
  }

  /** The engine has failed: whoever waits for it learns it. */
  die(): void {
    Atomics.store(this.words, DEAD, 1);
    this.announceAnswer();
  }
}
