/**
 * The loops that are timed, in the asynchronous form: `await cq.ready()`, then poll. The queue's mode decides how it waits, by event or first by
 * a bounded spin. A WRITE tells the target with immediate data here, because nobody polls memory.
 */

import type { CompletionQueue, WorkCompletions } from '../../../../verbs/index.js';
import { STATUS } from '../../../../verbs/status.js';
import { batchValue, SIGNAL_EVERY, WINDOW } from '../case.js';
import type { Endpoint } from './endpoint.js';

const TIMEOUT_MS = 10_000;

/** Waits for completions, checks them and returns how many came. */
async function reap(cq: CompletionQueue, wcs: WorkCompletions): Promise<number> {
  for (;;) {
    const n = cq.poll(wcs);
    for (let i = 0; i < n; i++) {
      if (wcs.status[i] !== STATUS.SUCCESS) {
        throw new Error(`a request failed with status ${wcs.status[i]}: ${cq.cause(wcs.causeId[i])?.words ?? 'no cause given'}`);
      }
    }
    if (n > 0) return n;
    await cq.ready({ timeoutMs: TIMEOUT_MS });
  }
}

async function post(end: Endpoint): Promise<void> {
  end.single.post(0, end.bench.size, 0);
  await reap(end.sendCq, end.wcs);
}

async function pingPong(end: Endpoint, initiator: boolean, batch: number, batches: number): Promise<number[]> {
  const values: number[] = [];
  for (let b = 0; b < batches; b++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) {
      if (initiator) await post(end);
      await reap(end.recvCq, end.wcs);
      end.repost();
      if (!initiator) await post(end);
    }
    values.push(batchValue(end.bench, batch, performance.now() - start, true));
  }
  return values;
}

async function oneAtATime(end: Endpoint, batch: number, batches: number): Promise<number[]> {
  const values: number[] = [];
  for (let b = 0; b < batches; b++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) await post(end);
    values.push(batchValue(end.bench, batch, performance.now() - start));
  }
  return values;
}

async function streamOut(end: Endpoint, batch: number, batches: number): Promise<number[]> {
  const values: number[] = [];
  const total = batch * batches;
  let posted = 0;
  let completed = 0;
  let marked = 0;
  let start = performance.now();
  while (completed < total) {
    for (; posted < total && posted - completed < WINDOW; posted++) end.streamed.post(0, end.bench.size, 0);
    completed += (await reap(end.sendCq, end.wcs)) * SIGNAL_EVERY;
    if (completed - marked >= batch) {
      const now = performance.now();
      values.push(batchValue(end.bench, completed - marked, now - start));
      marked = completed;
      start = now;
    }
  }
  return values;
}

async function streamIn(end: Endpoint, count: number): Promise<void> {
  let received = end.surplus;
  while (received < count) {
    const n = await reap(end.recvCq, end.wcs);
    for (let i = 0; i < n; i++) end.repost();
    received += n;
  }
  end.surplus = received - count;
}

/** The initiator's part of a round: a value per batch. */
export function initiateByEvents(end: Endpoint, batch: number, batches: number): Promise<number[]> {
  if (end.bench.metric !== 'latency') return streamOut(end, batch, batches);
  return end.isTwoSided ? pingPong(end, true, batch, batches) : oneAtATime(end, batch, batches);
}

/** The target's part, for operations that have one. */
export async function answerByEvents(end: Endpoint, batch: number, batches: number): Promise<void> {
  if (!end.isTwoSided) return;
  if (end.bench.metric === 'latency') await pingPong(end, false, batch, batches);
  else if (end.bench.op === 'send') await streamIn(end, batch * batches);
}
