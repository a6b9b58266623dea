/**
 * The stage of a conformance test: two devices that reach each other, the objects that the test makes, and the waiting.
 *
 * Waiting is done in one way everywhere: `until` polls every watched completion queue and every device's events in turn (a provider carries
 * deferred work forward in these calls), lets virtual time advance where there is such a thing, and yields to the event loop. Everything that
 * came from the stage is closed in reverse order when the test ends.
 */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  type Access,
  type AsyncEvent,
  type AsyncEventType,
  type Capabilities,
  type Completion,
  type CompletionQueue,
  type ConnectAttributes,
  type CqInit,
  type Device,
  type MemoryKind,
  type MemoryRegion,
  type ProtectionDomain,
  type QpInit,
  type QueuePair,
  type SharedReceiveQueue,
  type SrqInit,
  type Status,
  VerbsError,
  type VerbsErrorCode,
  WorkCompletions,
} from '../../src/verbs/index.js';
import type { VerbsFactory } from './factory.js';

/** How long a test waits for what must come. Only a failing test waits so long, and a busy machine may need it. */
const LIMIT_MS = 30_000;

/** Every right, for tests that are not about rights. */
export const ALL_RIGHTS: Access = { localWrite: true, remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** Says why a device cannot run a test, or undefined when it can. */
export type Need = (capabilities: Capabilities) => string | undefined;

/** A named group of tests. */
export interface Chapter {
  readonly title: string;
  register(test: (name: string, body: (stage: Stage) => Promise<void> | void, ...needs: Need[]) => void): void;
}

export const needType =
  (type: Capabilities['qpTypes'][number]): Need =>
  (c) =>
    c.qpTypes.includes(type) ? undefined : `the device has no ${type} queue pairs`;
export const needAtomics: Need = (c) => (c.atomics === 'none' ? 'the device has no atomics' : undefined);
export const needSrq: Need = (c) => (c.srq ? undefined : 'the device has no shared receive queues');
export const needMulticast: Need = (c) => (c.multicast ? undefined : 'the device has no multicast');
export const needUmr: Need = (c) => (c.umr ? undefined : 'the device has no indexed or strided regions');
export const needPrivate: Need = (c) => (c.privateMemory ? undefined : 'the device cannot register ordinary ArrayBuffers');
export const needFiles: Need = (c) => (c.mappedFiles ? undefined : 'the device cannot map files');
export const needDirectAccess: Need = (c) =>
  c.directAccess ? undefined : 'the device gives no direct access to memory of peers';
export const needOnDemand: Need = (c) => (c.onDemand ? undefined : 'the device has no on-demand registration');

class Skipped extends Error {}

/** Registers the tests of a chapter and returns their full names. */
export function registerChapter(factory: VerbsFactory, chapter: Chapter): string[] {
  const names: string[] = [];
  describe(chapter.title, () => {
    const devices: Device[] = [];
    before(async () => {
      devices.push(await factory.open(), await factory.open());
    });
    after(() => {
      for (const device of devices) device.close();
    });
    chapter.register((name, body, ...needs) => {
      const full = `${chapter.title}: ${name}`;
      names.push(full);
      const skip = factory.skip?.find((entry) => entry.tests.includes(full) || entry.tests.includes(chapter.title));
      if (skip) {
        it(name, { skip: skip.reason });
        return;
      }
      it(name, async (t) => {
        for (const need of needs) {
          const reason = need(devices[0].capabilities);
          if (reason !== undefined) {
            t.skip(reason);
            return;
          }
        }
        const stage = new Stage(factory, devices[0], devices[1]);
        try {
          await body(stage);
        } catch (error) {
          stage.abandon();
          if (!(error instanceof Skipped)) throw error;
          t.skip(error.message);
          return;
        }
        stage.close();
      });
    });
  });
  return names;
}

/** Names in the factory's skips that are no test and no chapter. */
export function unknownSkips(factory: VerbsFactory, names: readonly string[]): string[] {
  const titles = new Set(names.map((name) => name.slice(0, name.indexOf(':'))));
  const listed = (factory.skip ?? []).flatMap((entry) => [...entry.tests]);
  return listed.filter((name) => !names.includes(name) && !titles.has(name));
}

/** A watched completion queue and what came out of it, in order. */
export class Inbox {
  readonly cq: CompletionQueue;
  readonly list: Completion[] = [];
  readonly #stage: Stage;
  readonly #wcs = new WorkCompletions(64);

  constructor(stage: Stage, cq: CompletionQueue) {
    this.#stage = stage;
    this.cq = cq;
  }

  /** Polls until the queue is empty. */
  drain(): void {
    for (;;) {
      const n = this.cq.poll(this.#wcs);
      for (let i = 0; i < n; i++) {
        const completion = this.#wcs.at(i);
        const causeId = this.#wcs.causeId[i];
        this.list.push(causeId === 0 ? completion : { ...completion, cause: this.cq.cause(causeId) });
      }
      if (n < this.#wcs.capacity) return;
    }
  }

  /** Waits for `n` completions and takes them out. */
  async take(n = 1): Promise<Completion[]> {
    await this.#stage.until(
      () => this.list.length >= n,
      () => `${n} completions, got ${this.list.length}: ${this.list.map(completionWords).join('; ')}`,
    );
    return this.list.splice(0, n);
  }

  /** Waits for one completion and takes it out. */
  async one(): Promise<Completion> {
    return (await this.take(1))[0];
  }

  /** Waits for `n` successful completions and takes them out. */
  async succeed(n = 1): Promise<Completion[]> {
    const taken = await this.take(n);
    for (const completion of taken) assertSuccess(completion);
    return taken;
  }

  /** Waits for one completion that failed with one of the statuses; checks that it carries its cause. */
  async fail(...statuses: Status[]): Promise<Completion> {
    const completion = await this.one();
    assertFailed(completion, ...statuses);
    return completion;
  }
}

/** One side of a test: a device, a protection domain and one watched completion queue for everything. */
export class Side {
  readonly stage: Stage;
  readonly device: Device;
  readonly pd: ProtectionDomain;
  #inbox: Inbox | undefined;

  constructor(stage: Stage, device: Device) {
    this.stage = stage;
    this.device = device;
    this.pd = stage.keep(device.allocPd());
  }

  /** The watched queue that queue pairs of this side use when the test names no other. */
  get inbox(): Inbox {
    this.#inbox ??= this.watchedCq({ depth: 4096 });
    return this.#inbox;
  }

  cq(init: CqInit = {}): CompletionQueue {
    return this.stage.keep(this.device.createCq(init));
  }

  watchedCq(init: CqInit = {}): Inbox {
    return this.stage.watch(this.cq(init));
  }

  qp(init: Partial<QpInit> = {}): QueuePair {
    const cq = init.sendCq && init.recvCq ? undefined : this.inbox.cq;
    return this.stage.keep(this.pd.createQp({ type: 'RC', sendCq: cq!, recvCq: cq!, ...init }));
  }

  srq(init: SrqInit = {}): SharedReceiveQueue {
    return this.stage.keep(this.pd.createSrq(init));
  }

  /** Registered memory of a kind, filled with zeros. */
  memory(length: number, access: Access = ALL_RIGHTS, kind: MemoryKind = 'arena'): MemoryRegion {
    const rights = kind === 'private' ? { ...access, remoteAtomic: false } : access;
    if (kind === 'arena') {
      const memory = this.device.alloc(length);
      const region = this.pd.register(new Uint8Array(memory, 0, length), rights);
      this.stage.onClose(() => {
        region.deregister();
        this.device.free(memory);
      });
      return region;
    }
    if (kind === 'private') return this.stage.keepRegion(this.pd.register(new ArrayBuffer(length), rights));
    if (kind === 'file') {
      const path = this.stage.file(new Uint8Array(length));
      return this.stage.keepRegion(this.pd.register(this.device.mapFile(path, { writable: true }), rights));
    }
    throw new Error(`no memory of kind ${kind}`);
  }
}

/** One end of a connection. */
export interface End {
  readonly side: Side;
  readonly device: Device;
  readonly pd: ProtectionDomain;
  readonly qp: QueuePair;
  readonly inbox: Inbox;
}

/** How `stage.connected` makes its ends. */
export interface PairOptions {
  type?: 'RC' | 'UC';
  /** For both ends, or for the first and the second. */
  init?: Partial<QpInit> | readonly [Partial<QpInit>, Partial<QpInit>];
  attributes?: ConnectAttributes | readonly [ConnectAttributes, ConnectAttributes];
}

export class Stage {
  readonly factory: VerbsFactory;
  readonly a: Side;
  readonly b: Side;
  readonly #inboxes: Inbox[] = [];
  readonly #events = new Map<Device, AsyncEvent[]>();
  readonly #closers: (() => void)[] = [];
  #folder: string | undefined;
  #files = 0;

  constructor(factory: VerbsFactory, a: Device, b: Device) {
    this.factory = factory;
    for (const device of [a, b]) this.#events.set(device, []);
    this.pollEvents();
    for (const list of this.#events.values()) list.length = 0;
    this.a = new Side(this, a);
    this.b = new Side(this, b);
  }

  get capabilities(): Capabilities {
    return this.a.device.capabilities;
  }

  /** Ends the test as skipped. */
  skip(reason: string): never {
    throw new Skipped(reason);
  }

  /** A size or count, shrunk for a slow fabric. */
  scaled(n: number): number {
    return Math.max(1, Math.round(n * (this.factory.scale ?? 1)));
  }

  /** The kinds of memory that the device registers. */
  get kinds(): MemoryKind[] {
    const { privateMemory, mappedFiles } = this.capabilities;
    return ['arena', ...(privateMemory ? ['private' as const] : []), ...(mappedFiles ? ['file' as const] : [])];
  }

  /** Milliseconds on the clock that timeouts refer to. */
  nowMs(): number {
    return this.factory.nowUs ? this.factory.nowUs() / 1000 : performance.now();
  }

  /** Another device, closed with the stage, its events polled like those of the two. */
  async extraDevice(): Promise<Side> {
    const device = await this.factory.open();
    this.#events.set(device, []);
    this.onClose(() => {
      this.#events.delete(device);
      device.close();
    });
    return new Side(this, device);
  }

  keep<T extends { close(): void }>(thing: T): T {
    this.onClose(() => thing.close());
    return thing;
  }

  keepRegion(region: MemoryRegion): MemoryRegion {
    this.onClose(() => region.deregister());
    return region;
  }

  onClose(act: () => void): void {
    this.#closers.push(act);
  }

  watch(cq: CompletionQueue): Inbox {
    const inbox = new Inbox(this, cq);
    this.#inboxes.push(inbox);
    this.onClose(() => this.#inboxes.splice(this.#inboxes.indexOf(inbox), 1));
    return inbox;
  }

  /** Stops polling a queue: it was closed, or it has overrun. */
  unwatch(inbox: Inbox): void {
    const at = this.#inboxes.indexOf(inbox);
    if (at >= 0) this.#inboxes.splice(at, 1);
  }

  /** A temporary file with these bytes. */
  file(bytes: Uint8Array): string {
    if (this.#folder === undefined) {
      const folder = mkdtempSync(join(tmpdir(), 'verbena-conformance-'));
      this.#folder = folder;
      this.#closers.unshift(() => rmSync(folder, { recursive: true, force: true }));
    }
    const path = join(this.#folder, `${this.#files++}`);
    writeFileSync(path, bytes);
    return path;
  }

  /** Two connected ends, the first on device a, the second on device b. */
  async connected(options: PairOptions = {}): Promise<[End, End]> {
    const [initA, initB] = both(options.init);
    const [attributesA, attributesB] = both(options.attributes);
    const type = options.type ?? 'RC';
    const one = this.a.qp({ type, ...initA });
    const two = this.b.qp({ type, ...initB });
    await one.connect(two.address(), attributesA);
    await two.connect(one.address(), attributesB);
    return [this.#end(this.a, one), this.#end(this.b, two)];
  }

  #end(side: Side, qp: QueuePair): End {
    return { side, device: side.device, pd: side.pd, qp, inbox: side.inbox };
  }

  pollEvents(): void {
    for (const [device, list] of this.#events) {
      for (let event = device.pollEvent(); event; event = device.pollEvent()) list.push(event);
    }
  }

  /** Polls everything once and lets time and other work go on. */
  async pump(): Promise<void> {
    for (const inbox of this.#inboxes) inbox.drain();
    this.pollEvents();
    await this.factory.advance?.(100);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }

  /** Pumps until the condition holds. Fails after the limit. */
  async until(condition: () => boolean, what: () => string, limitMs = LIMIT_MS): Promise<void> {
    const deadline = performance.now() + limitMs / Math.max(0.1, this.factory.scale ?? 1);
    while (!condition()) {
      if (performance.now() > deadline) assert.fail(`waited ${limitMs} ms for ${what()}`);
      await this.pump();
    }
  }

  /** Pumps until a promise is settled, and gives its value. */
  async settle<T>(promise: Promise<T>, limitMs = LIMIT_MS): Promise<T> {
    let settled = false;
    const mark = () => {
      settled = true;
    };
    promise.then(mark, mark);
    await this.until(
      () => settled,
      () => 'a promise',
      limitMs,
    );
    return promise;
  }

  /** Pumps for a while: what should not happen has had its chance. Milliseconds on the clock that timeouts refer to. */
  async elapse(ms: number): Promise<void> {
    const end = this.nowMs() + ms;
    await this.until(
      () => this.nowMs() >= end,
      () => 'time to pass',
      ms * 20 + 5000,
    );
  }

  /** Waits for an async event of a type on a device and takes it out. */
  async event(device: Device, type: AsyncEventType, qpNum?: number): Promise<AsyncEvent> {
    const list = this.eventsOf(device);
    const find = () => list.findIndex((event) => event.type === type && (qpNum === undefined || event.qpNum === qpNum));
    await this.until(
      () => find() >= 0,
      () => `event ${type}, got: ${list.map((event) => event.type).join(', ') || 'none'}`,
    );
    return list.splice(find(), 1)[0];
  }

  /** Events of a device that came so far. */
  eventsOf(device: Device): AsyncEvent[] {
    const list = this.#events.get(device);
    assert.ok(list, 'the stage watches this device');
    return list;
  }

  /** Closes what can be closed: the test has failed already. */
  abandon(): void {
    try {
      this.close();
    } catch {
      // The failure of the test is the one to report.
    }
  }

  close(): void {
    const failures: unknown[] = [];
    for (const closer of this.#closers.reverse()) {
      try {
        closer();
      } catch (error) {
        failures.push(error);
      }
    }
    this.#closers.length = 0;
    if (failures.length > 0) throw failures[0];
  }
}

function both<T extends object>(options: T | readonly [T, T] | undefined): readonly [T | undefined, T | undefined] {
  return Array.isArray(options) ? (options as unknown as readonly [T, T]) : [options as T | undefined, options as T | undefined];
}

/** A completion in words, for messages. */
function completionWords(completion: Completion): string {
  return `${completion.opcode} ${completion.id} ${completion.status}${completion.cause ? ` (${completion.cause.words})` : ''}`;
}

function assertSuccess(completion: Completion): void {
  assert.equal(completion.status, 'SUCCESS', completionWords(completion));
  assert.equal(completion.cause, undefined, 'a success has no cause');
}

/** Checks the status and that the completion says why it failed. */
export function assertFailed(completion: Completion, ...statuses: Status[]): void {
  assert.ok(statuses.includes(completion.status), `expected ${statuses.join(' or ')}: ${completionWords(completion)}`);
  const cause = completion.cause;
  assert.ok(cause, `${completion.status} carries its cause`);
  assert.ok(cause.words.length >= 20 && /[a-z] [a-z]/.test(cause.words), `the cause is a sentence: '${cause.words}'`);
  assert.ok(cause.peer.length > 0, 'the cause names the peer, or says that it is unknown');
  assert.equal(cause.qpNum, completion.qpNum, 'the cause names the queue pair');
  if (completion.status !== 'WR_FLUSH_ERR') {
    assert.equal(cause.status, completion.status, 'the cause has the status');
    assert.equal(cause.wrId, completion.id, 'the cause names the work request');
    assert.equal(cause.opcode, completion.opcode, 'the cause names the operation');
  }
}

/** For assert.throws and assert.rejects: a VerbsError with one of the codes, and optionally the index of the first bad request. */
export function verbsError(codes: VerbsErrorCode | readonly VerbsErrorCode[], badIndex?: number): (error: unknown) => true {
  return (error) => {
    assert.ok(VerbsError.is(error), `expected a VerbsError, got ${String(error)}`);
    const list = typeof codes === 'string' ? [codes] : codes;
    assert.ok(list.includes(error.code), `expected ${list.join(' or ')}, got ${error.code}: ${error.message}`);
    assert.ok(error.message.length >= 10, 'the message says what is wrong');
    if (badIndex !== undefined) assert.equal(error.badIndex, badIndex, 'badIndex names the first rejected request');
    return true;
  };
}
