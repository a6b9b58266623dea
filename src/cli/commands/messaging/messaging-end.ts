/**
 * One side of a messaging measurement: a worker, one buffer to send from, one to receive into, and the loops that are timed.
 *
 * Every round of two-sided operations has buffers of its own, as peers that start anew for every round have: which pages a buffer lies on decides how it fits into
 * the caches. All of them are written first, because reading memory that was never written reads one page of zeros.
 *
 * Latency of tag, am and put is half a round trip; of get, one operation. Streaming keeps a window of 64 outstanding; the receiver answers the last
 * message of a batch, so a batch ends when everything has arrived.
 */

import { openContext } from '../../../messaging/context.js';
import type { Context, Endpoint, ExposedMemory, Payload, RemoteMemory, Worker } from '../../../messaging/index.js';
import { batchValue, WINDOW } from '../bench/case.js';
import { Patience } from '../bench/ours/patience.js';
import type { MessagingCase } from './messaging-case.js';

/** Plain JSON that the two sides exchange. */
export interface EndAddress {
  readonly worker: readonly number[];
  readonly memory: readonly number[];
}

const TAG = 1;
const ANSWER = 2;
const HANDLER = 7;
/** Operations before the timing. */
const LEAD_IN = 64;
const CHECKED_BYTES = 4096;
/** What fresh buffers hold: no mark of a put. */
const UNUSED = 255;
const NO_HEADER = new Uint8Array(0);

export class MessagingEnd {
  readonly bench: MessagingCase;
  readonly worker: Worker;
  readonly #context: Context;
  #source!: Payload;
  #sink!: Payload;
  readonly #answer: Payload;
  #sinkBytes!: Uint8Array;
  readonly #patience = new Patience();
  readonly #arrived: Promise<Endpoint>;
  readonly #exposed: ExposedMemory;
  #endpoint!: Endpoint;
  #remote!: RemoteMemory;
  #handled = 0;
  #expected = 0;
  #marks = 0;

  private constructor(context: Context, worker: Worker, bench: MessagingCase) {
    this.bench = bench;
    this.worker = worker;
    this.#context = context;
    this.#takeBuffers();
    this.#answer = worker.payload(new Uint8Array(1));
    this.#exposed = worker.expose(this.#sinkBytes);
    this.#arrived = new Promise((resolve) => {
      worker.onEndpoint = resolve;
    });
    if (bench.op === 'am') {
      worker.handle(HANDLER, (message) => {
        this.#handled++;
        if (message.data === undefined) void message.receive(this.#sinkBytes);
      });
    }
  }

  static async open(bench: MessagingCase): Promise<MessagingEnd> {
    const context = await openContext({ device: bench.engine.split(','), name: 'verbena bench' });
    return new MessagingEnd(context, await context.createWorker({ mode: bench.mode ?? 'adaptive' }), bench);
  }

  #takeBuffers(): void {
    const { size, memory } = this.bench;
    const make = () => (memory === 'arena' ? this.#context.alloc(size) : new Uint8Array(size)).fill(UNUSED);
    this.#source = this.worker.payload(make());
    this.#sinkBytes = make();
    this.#sink = this.worker.payload(this.#sinkBytes);
  }

  /** Other buffers for the next round, unless the peer has the key of these. */
  #renewBuffers(): void {
    if (this.bench.op === 'put' || this.bench.op === 'get') return;
    this.#exposed.close();
    const old = [this.#source.bytes, this.#sinkBytes];
    this.#takeBuffers();
    if (this.bench.memory === 'arena') for (const memory of old) this.#context.free(memory);
  }

  address(): EndAddress {
    return { worker: [...this.worker.address], memory: [...this.#exposed.pack()] };
  }

  async connect(peer: EndAddress, initiator: boolean): Promise<void> {
    if (initiator) {
      this.#endpoint = this.worker.connect(Uint8Array.from(peer.worker));
      await this.#endpoint.ready();
    } else {
      this.#endpoint = await this.#arrived;
    }
    this.#remote = this.#endpoint.unpack(Uint8Array.from(peer.memory));
  }

  // ---- the synchronous form ----

  #finish(handle: number): void {
    const { worker } = this;
    while (!worker.test(handle)) {
      worker.poll();
      this.#patience.turn();
    }
    this.#patience.reset();
  }

  #send(payload: Payload, tag: number): void {
    this.#finish(this.worker.postSend(this.#endpoint, payload, tag, 0));
  }

  #receive(payload: Payload, tag: number): void {
    this.#finish(this.worker.postRecv(payload, tag, 0));
  }

  #put(mark: number): void {
    this.#source.bytes[this.bench.size - 1] = mark;
    this.#finish(this.#remote.postPut(0, this.#source));
  }

  #awaitPut(mark: number): void {
    const last = this.bench.size - 1;
    while (this.#sinkBytes[last] !== mark) {
      this.worker.poll();
      this.#patience.turn();
    }
    this.#patience.reset();
  }

  /** Waits for `count` more active messages than were waited for so far; they may have come already. */
  #awaitHandled(count: number): void {
    this.#expected += count;
    while (this.#handled < this.#expected) {
      this.worker.poll();
      this.#patience.turn();
    }
    this.#patience.reset();
  }

  #am(): void {
    this.#finish(this.worker.postAm(this.#endpoint, HANDLER, NO_HEADER, this.#source));
  }

  /** One turn of a ping-pong; the target's turn is the mirror image. */
  #tagTurn(initiator: boolean): void {
    if (initiator) this.#send(this.#source, TAG);
    this.#receive(this.#sink, TAG);
    if (!initiator) this.#send(this.#source, TAG);
  }

  #amTurn(initiator: boolean): void {
    if (initiator) this.#am();
    this.#awaitHandled(1);
    if (!initiator) this.#am();
  }

  #putTurn(initiator: boolean): void {
    // Both sides count the turns, so a put leaves a mark that was not there before.
    const mark = (this.#marks++ % 250) + 1;
    if (initiator) this.#put(mark);
    this.#awaitPut(mark);
    if (!initiator) this.#put(mark);
  }

  #turns(op: MessagingCase['op'], count: number, initiator: boolean): void {
    if (op === 'tag') for (let i = 0; i < count; i++) this.#tagTurn(initiator);
    else if (op === 'am') for (let i = 0; i < count; i++) this.#amTurn(initiator);
    else if (op === 'put') for (let i = 0; i < count; i++) this.#putTurn(initiator);
    else if (initiator) for (let i = 0; i < count; i++) this.#finish(this.#remote.postGet(0, this.#sink));
  }

  /** Streams `count` messages out with a window, and waits until the other side has them all. */
  #streamOut(count: number): void {
    const { op } = this.bench;
    const handles = new Float64Array(WINDOW);
    for (let i = 0; i < count; i++) {
      const at = i % WINDOW;
      if (i >= WINDOW) this.#finish(handles[at]);
      if (op === 'tag') handles[at] = this.worker.postSend(this.#endpoint, this.#source, TAG, 0);
      else if (op === 'am') handles[at] = this.worker.postAm(this.#endpoint, HANDLER, NO_HEADER, this.#source);
      else if (op === 'put') handles[at] = this.#remote.postPut(0, this.#source);
      else handles[at] = this.#remote.postGet(0, this.#sink);
    }
    for (let i = Math.max(0, count - WINDOW); i < count; i++) this.#finish(handles[i % WINDOW]);
    if (op === 'tag' || op === 'am') this.#receive(this.#answer, ANSWER);
  }

  #streamIn(count: number): void {
    if (this.bench.op === 'tag') {
      const handles = new Float64Array(WINDOW);
      for (let i = 0; i < count + WINDOW; i++) {
        const at = i % WINDOW;
        if (i >= WINDOW) this.#finish(handles[at]);
        handles[at] = i < count ? this.worker.postRecv(this.#sink, TAG, 0) : 0;
      }
    } else if (this.bench.op === 'am') {
      this.#awaitHandled(count);
    } else {
      return;
    }
    this.#send(this.#answer, ANSWER);
  }

  // ---- the promise form ----

  async #turnAsync(initiator: boolean): Promise<void> {
    const { worker, bench } = this;
    const out = this.#endpoint;
    if (bench.op === 'get') {
      if (initiator) await this.#remote.get(0, this.#sink);
      return;
    }
    if (initiator) await this.#sendAsync(out);
    if (bench.op === 'stream') {
      for (let got = 0; got < bench.size; ) got += await out.stream.read(this.#sinkBytes.subarray(got));
    } else {
      await worker.recv(TAG, this.#sink);
    }
    if (!initiator) await this.#sendAsync(out);
  }

  #sendAsync(out: Endpoint): Promise<void> {
    return this.bench.op === 'stream' ? out.stream.write(this.#source) : out.send(TAG, this.#source);
  }

  async #streamOutAsync(count: number): Promise<void> {
    const out = this.#endpoint;
    const window: Promise<void>[] = [];
    for (let i = 0; i < count; i++) {
      if (this.bench.op === 'put') window.push(this.#remote.put(0, this.#source));
      else if (this.bench.op === 'get') window.push(this.#remote.get(0, this.#sink));
      else window.push(this.#sendAsync(out));
      if (window.length === WINDOW) await window.shift();
    }
    await Promise.all(window);
    if (this.bench.op !== 'put' && this.bench.op !== 'get') await this.worker.recv(ANSWER, this.#answer);
  }

  async #streamInAsync(count: number): Promise<void> {
    if (this.bench.op === 'put' || this.bench.op === 'get') return;
    if (this.bench.op === 'stream') {
      for (let left = count * this.bench.size; left > 0; ) {
        left -= await this.#endpoint.stream.read(this.#sinkBytes.subarray(0, Math.min(left, this.bench.size)));
      }
    } else {
      for (let i = 0; i < count; i++) await this.worker.recv(TAG, this.#sink);
    }
    await this.#endpoint.send(ANSWER, this.#answer);
  }

  // ---- rounds ----

  /** One side's part of a round: a lead-in on other buffers, then a value per batch. */
  async round(batch: number, batches: number, initiator: boolean): Promise<number[]> {
    this.#renewBuffers();
    await this.#batches(LEAD_IN, 1, initiator);
    return this.#batches(batch, batches, initiator);
  }

  async #batches(batch: number, batches: number, initiator: boolean): Promise<number[]> {
    const values: number[] = [];
    const isAsync = this.bench.api === 'promise' || this.bench.op === 'stream';
    const isLatency = this.bench.metric === 'latency';
    for (let b = 0; b < batches; b++) {
      const start = performance.now();
      if (isLatency && isAsync) for (let i = 0; i < batch; i++) await this.#turnAsync(initiator);
      else if (isLatency) this.#turns(this.bench.op, batch, initiator);
      else if (isAsync) await (initiator ? this.#streamOutAsync(batch) : this.#streamInAsync(batch));
      else if (initiator) this.#streamOut(batch);
      else this.#streamIn(batch);
      values.push(batchValue(this.bench, batch, performance.now() - start, this.bench.op !== 'get'));
    }
    return values;
  }

  /** Sends a pattern once and has the other side compare it. */
  async check(seed: number, initiator: boolean): Promise<void> {
    const expected = Uint8Array.from({ length: Math.min(this.bench.size, CHECKED_BYTES) }, (_, i) => (i * 31 + seed) & 0xff);
    if (initiator) {
      this.#source.bytes.set(expected);
      if (this.bench.op === 'put') await this.#remote.put(0, this.#source);
      else if (this.bench.op === 'get') await this.#remote.get(0, this.#sink);
      else if (this.bench.op === 'stream') await this.#endpoint.stream.write(this.#source);
      else await this.#endpoint.send(TAG, this.#source);
      await this.#endpoint.send(ANSWER, this.#answer);
      return;
    }
    if (this.bench.op === 'stream') {
      for (let got = 0; got < this.bench.size; ) got += await this.#endpoint.stream.read(this.#sinkBytes.subarray(got));
    } else if (this.bench.op === 'tag' || this.bench.op === 'am') {
      await this.worker.recv(TAG, this.#sink);
    }
    await this.worker.recv(ANSWER, this.#answer);
    if (this.bench.op !== 'get' && Buffer.compare(this.#sinkBytes.subarray(0, expected.length), expected) !== 0) {
      throw new Error('the bytes that arrived are not those that were sent');
    }
    if (this.bench.op === 'put') this.#sinkBytes.fill(0);
  }

  /** Share of a core that waiting takes. */
  async idle(durationMs: number): Promise<number> {
    const cpu = process.cpuUsage();
    const start = performance.now();
    await this.worker.recv(99, this.#answer, { timeoutMs: durationMs }).catch(() => undefined);
    const used = process.cpuUsage(cpu);
    return (used.user + used.system) / 1000 / (performance.now() - start);
  }

  async close(): Promise<void> {
    await this.#context.close();
  }
}
