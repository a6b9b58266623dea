/**
 * What the message systems of Node have in common: bytes go in at one end and come out at the other, whole messages of one size.
 * The loops here measure any of them alike.
 *
 * ```
 *   latency            initiator ──message──> responder ──message──> initiator        one round trip = two latencies
 *   bandwidth, rate    initiator ══ window 64 ══> responder, which answers every 32nd message with one message
 * ```
 */

import { type BenchCase, batchValue, SIGNAL_EVERY, WINDOW } from '../case.js';

export interface Pipe {
  /** Hands a message over. Its memory may be reused only when the loops here say so: they never change it while timing. */
  send(message: Uint8Array): void;
  /** Called for each message that arrives, with memory that is valid during the call. */
  onMessage: (message: Uint8Array) => void;
}

/** A pattern that a stale or torn message does not have. */
export function fillPattern(bytes: Uint8Array, seed: number): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = (seed + i * 31 + (i >> 8)) & 0xff;
}

export function hasPattern(bytes: Uint8Array, seed: number): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== ((seed + i * 31 + (i >> 8)) & 0xff)) return false;
  return true;
}

/** Sends `batches` x `batch` messages there and back; a value for each batch. */
function pingPong(pipe: Pipe, bench: BenchCase, message: Uint8Array, batch: number, batches: number): Promise<number[]> {
  return new Promise((resolve) => {
    const values: number[] = [];
    let count = 0;
    let start = performance.now();
    pipe.onMessage = () => {
      if (++count === batch) {
        const now = performance.now();
        values.push(batchValue(bench, batch, now - start, true));
        start = now;
        count = 0;
        if (values.length === batches) {
          resolve(values);
          return;
        }
      }
      pipe.send(message);
    };
    pipe.send(message);
  });
}

/** Streams `batches` x `batch` messages one way; `batch` is a multiple of SIGNAL_EVERY. */
function stream(pipe: Pipe, bench: BenchCase, message: Uint8Array, batch: number, batches: number): Promise<number[]> {
  return new Promise((resolve) => {
    const values: number[] = [];
    const total = batch * batches;
    let sent = 0;
    let acknowledged = 0;
    let start = performance.now();
    const fill = () => {
      while (sent < total && sent - acknowledged < WINDOW) {
        pipe.send(message);
        sent++;
      }
    };
    pipe.onMessage = () => {
      acknowledged += SIGNAL_EVERY;
      if (acknowledged % batch === 0) {
        const now = performance.now();
        values.push(batchValue(bench, batch, now - start));
        start = now;
      }
      if (acknowledged === total) resolve(values);
      else fill();
    };
    fill();
  });
}

/** The side that measures. */
export function initiate(pipe: Pipe, bench: BenchCase, batch: number, batches: number): Promise<number[]> {
  const message = new Uint8Array(bench.size);
  fillPattern(message, 1);
  return (bench.metric === 'latency' ? pingPong : stream)(pipe, bench, message, batch, batches);
}

/** The side that answers: every message, or every 32nd when streaming. */
export function respond(pipe: Pipe, bench: BenchCase): void {
  const every = bench.metric === 'latency' ? 1 : SIGNAL_EVERY;
  const message = new Uint8Array(bench.size);
  fillPattern(message, 2);
  let count = 0;
  pipe.onMessage = () => {
    if (++count === every) {
      count = 0;
      pipe.send(message);
    }
  };
}

/** Sends as many messages as it takes to get one back, and checks that one. The responder's pattern proves that whole messages arrive. */
export function checkPayload(pipe: Pipe, bench: BenchCase): Promise<boolean> {
  const every = bench.metric === 'latency' ? 1 : SIGNAL_EVERY;
  const message = new Uint8Array(bench.size);
  return new Promise((resolve) => {
    pipe.onMessage = (answer) => resolve(answer.length === bench.size && hasPattern(answer, 2));
    for (let i = 0; i < every; i++) pipe.send(message);
  });
}
