/**
 * The loops that are timed, polling form. What they do is what the rules of measuring say:
 *
 * - write latency: the target polls the last word of its buffer and writes back; the sender reaps its own completion. Where packets carry the
 *   data, the target polls its queue too.
 * - send latency: both sides poll completion queues, repost the receive request and answer.
 * - read and atomic latency: post, poll the completion.
 * - bandwidth and rate: a window of 64 requests, a completion every 32nd.
 *
 * Nothing here makes an object, except one number per batch.
 */

import type { CompletionQueue, PreparedSend, WorkCompletions } from '../../../../verbs/index.js';
import { STATUS } from '../../../../verbs/status.js';
import { batchValue, SIGNAL_EVERY, WINDOW } from '../case.js';
import type { Endpoint } from './endpoint.js';
import { Patience } from './patience.js';

function failed(cq: CompletionQueue, wcs: WorkCompletions, i: number): never {
  const cause = cq.cause(wcs.causeId[i]);
  throw new Error(`a request failed with status ${wcs.status[i]}: ${cause?.words ?? 'no cause given'}`);
}

/** Polls until one completion of `cq` came, and checks it. */
function reapOne(cq: CompletionQueue, wcs: WorkCompletions, patience: Patience): void {
  let n = cq.poll(wcs);
  while (n === 0) {
    patience.turn();
    n = cq.poll(wcs);
  }
  if (wcs.status[0] !== STATUS.SUCCESS) failed(cq, wcs, 0);
}

/** The last word of a buffer, or its last byte when it is not made of words. */
function lastWord(bytes: Uint8Array, size: number): Int32Array | Uint8Array {
  return size % 4 === 0 && size > 0
    ? new Int32Array(bytes.buffer, bytes.byteOffset + size - 4, 1)
    : new Uint8Array(bytes.buffer, bytes.byteOffset + Math.max(0, size - 1), 1);
}

const BYTE = 0xff;

/** Polls a word. Plain loads are quick; the atomic one now and then keeps a compiler from taking them for one. */
function awaitValue(word: Int32Array | Uint8Array, value: number, patience: Patience): void {
  for (;;) {
    for (let i = 0; i < 16; i++) if (word[0] === value) return;
    if (Atomics.load(word, 0) === value) return;
    patience.turn();
  }
}

/** The same on a device whose packets move when somebody polls: what UCX's put_lat does by ucp_worker_progress. */
function awaitPolling(word: Int32Array | Uint8Array, value: number, patience: Patience, end: Endpoint): void {
  while (word[0] !== value) {
    end.recvCq.poll(end.wcs);
    patience.turn();
  }
}

/** Before a round of WRITEs, on both sides, while nobody writes: whatever stands there must not look like the first one. */
export function clearLastWord(end: Endpoint): void {
  Atomics.store(lastWord(end.sink.bytes, end.bench.size), 0, 0);
}

/** WRITE back and forth; the initiator starts. The value in the last word runs from 1 to 255; `clearLastWord` comes before a round. */
function writePingPong(end: Endpoint, initiator: boolean, batch: number, batches: number): number[] {
  const { bench, sendCq, wcs, single } = end;
  const size = bench.size;
  const outgoing = lastWord(end.source.bytes, size);
  const incoming = lastWord(end.sink.bytes, size);
  const patience = new Patience();
  const values: number[] = [];
  const isMapped = end.device.capabilities.directAccess;
  let sequence = 0;
  for (let b = 0; b < batches; b++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) {
      sequence = sequence === BYTE ? 1 : sequence + 1;
      if (initiator) {
        outgoing[0] = sequence;
        single.post(0, size, 0);
        reapOne(sendCq, wcs, patience);
      }
      if (isMapped) awaitValue(incoming, sequence, patience);
      else awaitPolling(incoming, sequence, patience, end);
      if (!initiator) {
        outgoing[0] = sequence;
        single.post(0, size, 0);
        reapOne(sendCq, wcs, patience);
      }
      patience.reset();
    }
    values.push(batchValue(bench, batch, performance.now() - start, true));
  }
  return values;
}

/** SEND back and forth. The receive request goes back when the answer is on its way, as a program in a hurry does it. */
function sendPingPong(end: Endpoint, initiator: boolean, batch: number, batches: number): number[] {
  const { bench, sendCq, recvCq, wcs, single } = end;
  const size = bench.size;
  const patience = new Patience();
  const values: number[] = [];
  let owed = false;
  for (let b = 0; b < batches; b++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) {
      if (!initiator) reapOne(recvCq, wcs, patience);
      single.post(0, size, 0);
      if (owed || !initiator) end.repost();
      reapOne(sendCq, wcs, patience);
      if (initiator) reapOne(recvCq, wcs, patience);
      owed = initiator;
      patience.reset();
    }
    values.push(batchValue(bench, batch, performance.now() - start, true));
  }
  if (owed) end.repost();
  return values;
}

/** READ or atomic, one at a time. */
function oneAtATime(end: Endpoint, batch: number, batches: number): number[] {
  const { bench, sendCq, wcs, single } = end;
  const patience = new Patience();
  const values: number[] = [];
  for (let b = 0; b < batches; b++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) {
      single.post(0, bench.size, 0);
      reapOne(sendCq, wcs, patience);
    }
    patience.reset();
    values.push(batchValue(bench, batch, performance.now() - start));
  }
  return values;
}

/** Takes what completions there are and returns how many. */
function reapSome(cq: CompletionQueue, wcs: WorkCompletions): number {
  const n = cq.poll(wcs);
  for (let i = 0; i < n; i++) if (wcs.status[i] !== STATUS.SUCCESS) failed(cq, wcs, i);
  return n;
}

/**
 * Streams `batch` x `batches` requests. Time is taken when completions come, not when requests go out: a request whose copy another thread
 * does has cost nothing yet when it is posted.
 */
function streamOut(end: Endpoint, request: PreparedSend, batch: number, batches: number): number[] {
  const { bench, sendCq, wcs } = end;
  const size = bench.size;
  const total = batch * batches;
  const patience = new Patience();
  const values: number[] = [];
  let posted = 0;
  let completed = 0;
  let marked = 0;
  let start = performance.now();
  while (completed < total) {
    while (posted < total && posted - completed < WINDOW) {
      request.post(0, size, 0);
      posted++;
    }
    const n = reapSome(sendCq, wcs);
    if (n === 0) {
      patience.turn();
      continue;
    }
    patience.reset();
    completed += n * SIGNAL_EVERY;
    if (completed - marked >= batch) {
      const now = performance.now();
      values.push(batchValue(bench, completed - marked, now - start));
      marked = completed;
      start = now;
    }
  }
  return values;
}

/** The receiver of a stream of SENDs: takes `count` messages, and posts a request for each. */
function streamIn(end: Endpoint, count: number): void {
  const { recvCq, wcs } = end;
  const patience = new Patience();
  let received = end.surplus;
  while (received < count) {
    const n = reapSome(recvCq, wcs);
    if (n === 0) {
      patience.turn();
      continue;
    }
    patience.reset();
    for (let i = 0; i < n; i++) end.repost();
    received += n;
  }
  end.surplus = received - count;
}

/** The initiator's part of a round: a value per batch. */
export function initiateByPolling(end: Endpoint, batch: number, batches: number): number[] {
  const { op, metric } = end.bench;
  if (metric !== 'latency') return streamOut(end, end.streamed, batch, batches);
  if (op === 'write') return writePingPong(end, true, batch, batches);
  if (op === 'send') return sendPingPong(end, true, batch, batches);
  return oneAtATime(end, batch, batches);
}

/** The target's part, for operations that have one; a READ, an atomic or a stream of WRITEs does not need the target. */
export function answerByPolling(end: Endpoint, batch: number, batches: number): void {
  const { op, metric } = end.bench;
  if (op === 'send' && metric !== 'latency') streamIn(end, batch * batches);
  else if (op === 'send') sendPingPong(end, false, batch, batches);
  else if (op === 'write' && metric === 'latency') writePingPong(end, false, batch, batches);
}
