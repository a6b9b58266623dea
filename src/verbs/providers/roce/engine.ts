/**
 * The engine: owns the socket, runs the transport's state machines and moves the bytes, on a thread of its own. The program's thread may
 * compute, sleep or collect garbage meanwhile: what peers read and write here does not need it.
 *
 *     loop:  packets in (a batch)  ──>  endpoints
 *            commands, doorbells   ──>  endpoints become ready
 *            timers that are due   ──>  endpoints
 *            ready endpoints       ──>  packets out (a batch), in turns
 *            nothing to do         ──>  look again for a while, then sleep until a packet, a doorbell or a timer
 *
 * A batch that has come in is worked off before answers go out, so that acknowledges coalesce.
 *
 * A program that polls without pause borrows the data path (`lend`): it does all this in its own thread, and this one only looks now and then
 * whether it still does. When it has stopped, this thread takes the data path back where the program left it.
 */

import type { MessagePort } from 'node:worker_threads';
import { receiveMessageOnPort } from 'node:worker_threads';
import type { Addon } from '../../../native/addon.js';
import { CmAgent, type CmHost } from '../../transport/cm-agent.js';
import type { CmRep, CmReq } from '../../transport/cm-messages.js';
import { EventQueue } from '../../transport/event-queue.js';
import type { Packet } from '../../transport/packet.js';
import { CompletionRing } from './completion-ring.js';
import { DataPath, now } from './data-path.js';
import { EngineQueuePair } from './engine-queue-pair.js';
import { SLOT, WORDS } from './fast-path.js';
import type { Answer, Command, EngineData, Notice } from './messages.js';
import { SharedReceiveMemory } from './shared-receive-memory.js';
import { Share } from './status-page.js';

/** Longest sleep, so that a thread that is to end by force notices it, microseconds. */
const LONGEST_SLEEP_US = 500_000;
/** How often a device that closes says that a connection is over. */
const FAREWELLS = 4;
/**
 * How often the engine looks whether a program that has borrowed the data path still uses it, microseconds: one that stops has lost it after twice
 * that. A look takes a few microseconds from the core that it happens on.
 */
const LENT_LOOK_US = 1000;

export class Engine extends DataPath implements CmHost {
  private readonly commandPort: MessagePort;
  private readonly noticePort: MessagePort;
  private readonly agent: CmAgent;
  private readonly cqs = new Map<number, CompletionRing>();
  private readonly srqs = new Map<number, SharedReceiveMemory>();
  private isAgentReady = false;
  private isClosing = false;
  private spinNs: number;
  /** False after a sleep that something else than a packet ended. */
  private mayHavePackets = true;
  /** Queue pairs whose state the program works on; undefined when this thread does. */
  private lent: EngineQueuePair[] | undefined;
  /** Where the board counts the program's turns. */
  private readonly heartbeat: number;

  constructor(data: EngineData, addon: Addon, commandPort: MessagePort, noticePort: MessagePort) {
    super(data, addon, addon.command(), Share.engine);
    this.commandPort = commandPort;
    this.noticePort = noticePort;
    this.table.onInvalidate = (key) => this.notice({ kind: 'invalidated', key });
    this.agent = new CmAgent(this, data.seed);
    this.spinNs = data.spinUs * 1000;
    this.heartbeat = addon.addressOf(this.board.heartbeat);
  }

  /** Works until the device is closed. */
  run(): void {
    let idleSince = 0;
    while (!this.isClosing && !this.board.isStopped) {
      if (this.lent !== undefined) this.watchBorrower(this.lent);
      this.readClock();
      let isBusy = this.board.takeCommand() && this.serve();
      if (this.lent !== undefined) continue;
      if (this.mayHavePackets && this.receive() > 0) isBusy = true;
      this.mayHavePackets = true;
      for (let slot = this.board.takeDoorbell(); slot >= 0; slot = this.board.takeDoorbell()) {
        this.bySlot[slot]?.rung();
        isBusy = true;
      }
      if (this.tick()) isBusy = true;
      if (this.agent.size > 0 && this.agent.deadline <= this.nowNs) this.tickAgent();
      if (this.isAgentReady) this.transmitAgent();
      if (this.transmit()) isBusy = true;
      this.finish();
      if (isBusy) {
        if (idleSince !== 0) this.spinNs = Math.min(this.data.spinUs * 1000, this.spinNs * 2 + 1000);
        idleSince = 0;
      } else if (idleSince === 0) {
        idleSince = this.nowNs;
      } else if (this.nowNs - idleSince >= this.spinNs) {
        this.spinNs >>= 1;
        this.sleep();
        idleSince = 0;
      }
    }
  }

  private sleep(): void {
    if (!this.board.fallAsleep()) return;
    this.mayHavePackets = this.wait(Math.min(this.timers.nextTime, this.agent.deadline));
    this.board.awake();
  }

  /** Sleeps until the time `due` or until it is woken. True when a packet is there. */
  private wait(due: number): boolean {
    const { command } = this.table;
    command[0] = this.data.datagram;
    command[1] = Math.max(0, Math.min(LONGEST_SLEEP_US, (due - now()) / 1000));
    this.addon.datagramWait();
    this.counters.systemCalls++;
    return command[4] !== 0;
  }

  /** Sleeps while the program has turns on the data path, until the time `due` at most, or until it is woken. True when the program has none. */
  private watch(due: number): boolean {
    const { command } = this.table;
    command[0] = this.data.datagram;
    command[1] = this.heartbeat;
    command[2] = LENT_LOOK_US;
    command[3] = Math.max(0, Math.min(LONGEST_SLEEP_US, (due - now()) / 1000));
    this.addon.datagramWatch();
    this.counters.systemCalls++;
    return command[4] !== 0;
  }

  // ---- lending the data path ----

  /** Hands the state of all connections to the program's thread, unless something here needs this one: then the answer is undefined. */
  private lend(): number[] | undefined {
    const lent: EngineQueuePair[] = [];
    if (this.agent.deadline !== Number.POSITIVE_INFINITY || this.isAgentReady) return undefined;
    for (const qp of this.bySlot) {
      if (qp === undefined) continue;
      if (!qp.isLendable) return undefined;
      if (qp.endpoint !== undefined) lent.push(qp);
    }
    this.flush();
    this.finish();
    this.lent = lent;
    this.board.lend();
    return lent.map((qp) => qp.record.slot);
  }

  /** The program runs the data path: looks now and then whether it still does, and returns when this thread has to. */
  private watchBorrower(lent: readonly EngineQueuePair[]): void {
    const { board } = this;
    while (board.fallAsleepLent()) {
      const isStill = this.watch(this.agent.deadline);
      board.awake();
      const isNeeded = isStill || this.agent.deadline <= now() || board.isStopped;
      if (isNeeded && board.takeBack()) break;
    }
    this.lent = undefined;
    this.timers = new EventQueue();
    for (const qp of lent) {
      qp.timerAt = Number.POSITIVE_INFINITY;
      this.markReady(qp);
    }
  }

  // ---- connection management ----

  protected managed(i: number, packet: Packet): void {
    const source = this.sourceOf(i * WORDS);
    if (source !== undefined) this.agent.receive(packet, this.rx, this.nowNs, source.index);
    this.isAgentReady = true;
  }

  private tickAgent(): void {
    this.agent.tick(this.nowNs);
    this.isAgentReady = true;
  }

  private transmitAgent(): void {
    this.isAgentReady = false;
    for (;;) {
      if (this.isBatchFull) this.flush();
      const length = this.agent.next(this.tx, this.txCount * SLOT);
      if (length === 0) return;
      this.address(this.paths.get(this.agent.destination), length);
    }
  }

  notice(notice: Notice): void {
    this.showNow();
    this.noticePort.postMessage(notice);
    this.board.announceNotice();
    this.mustRing = true;
  }

  // ---- commands ----

  private serve(): true {
    const received = receiveMessageOnPort(this.commandPort);
    let answer: Answer;
    try {
      answer = { value: this.execute(received?.message as Command) };
    } catch (error) {
      answer = { error: (error as Error).message };
    }
    this.ringNow();
    this.commandPort.postMessage(answer);
    this.board.announceAnswer();
    return true;
  }

  private execute(c: Command): unknown {
    switch (c.kind) {
      case 'createCq':
        this.cqs.set(c.cq, new CompletionRing(c.depth, c.buffer));
        return undefined;
      case 'closeCq':
        this.cqs.delete(c.cq);
        return undefined;
      case 'createSrq':
        this.srqs.set(c.srq, new SharedReceiveMemory(c.options, c.buffer));
        return undefined;
      case 'closeSrq':
        this.srqs.delete(c.srq);
        return undefined;
      case 'createQp': {
        const { record } = c;
        const [sendCq, recvCq] = [this.cqs.get(record.sendCq), this.cqs.get(record.recvCq)] as [CompletionRing, CompletionRing];
        const qp = new EngineQueuePair(this, record, this.table.view(record.domain), sendCq, recvCq, this.srqs.get(record.srq));
        this.bySlot[record.slot] = qp;
        this.byNumber.set(record.qpNum, qp);
        return undefined;
      }
      case 'closeQp': {
        const qp = this.bySlot[c.slot];
        if (qp === undefined) return undefined;
        qp.close();
        this.groups.forget(qp);
        this.byNumber.delete(qp.record.qpNum);
        this.bySlot[c.slot] = undefined;
        return undefined;
      }
      case 'modify':
        this.bySlot[c.slot]?.modify(c.from, c.to, c.attributes, c.changed, c.peer && this.pathTo(c.peer), c.state);
        return undefined;
      case 'stop':
        this.bySlot[c.slot]?.stop();
        return undefined;
      case 'join':
        return this.groups.join(this.bySlot[c.slot] as EngineQueuePair, c.group);
      case 'leave':
        return this.groups.leave(this.bySlot[c.slot] as EngineQueuePair, c.group);
      case 'register':
        this.table.register(c.region);
        return undefined;
      case 'revoke':
        return this.table.revoke(c.key);
      case 'path':
        return this.pathTo(c.end).index;
      case 'lend':
        return this.lend();
      case 'packet':
        this.carryOut(this.fast.inject(c.bytes, c.words, this.nowNs));
        return undefined;
      case 'counters':
        return this.counted();
      case 'close':
        this.close();
        return this.counted();
      default:
        return this.manage(c);
    }
  }

  private manage(c: Extract<Command, { kind: 'listen' | 'unlisten' | 'connect' | 'accept' | 'reject' | 'disconnect' }>): unknown {
    const { agent, nowNs } = this;
    this.isAgentReady = true;
    switch (c.kind) {
      case 'listen':
        return agent.listen(c.serviceId);
      case 'unlisten':
        return agent.unlisten(c.serviceId);
      case 'connect':
        return agent.connect(this.pathTo(c.end).index, c.request, nowNs);
      case 'accept':
        return agent.accept(c.id, c.reply, nowNs);
      case 'reject':
        return agent.reject(c.id, nowNs, c.privateData, c.reason);
      case 'disconnect':
        return agent.disconnect(c.id, nowNs);
    }
  }

  /** Nobody will be here to hear that a farewell was lost: so it is said several times. */
  private close(): void {
    this.isClosing = true;
    for (let more = 1; more < FAREWELLS; more++) this.agent.repeatDisconnects(this.nowNs);
    this.transmitAgent();
    if (this.txCount > 0) this.flush();
  }

  // ---- what connection management reports ----

  connectRequest(id: number, request: CmReq, source: number): void {
    this.notice({ kind: 'connectRequest', id, request, end: this.paths.get(source).end });
  }

  established(id: number, reply: CmRep | undefined): void {
    this.notice({ kind: 'established', id, reply });
  }

  rejected(id: number, reason: number, privateData: Uint8Array): void {
    this.notice({ kind: 'rejected', id, reason, privateData: Uint8Array.from(privateData) });
  }

  disconnected(id: number): void {
    this.notice({ kind: 'disconnected', id });
  }
}
