/**
 * Proof that the measured operation moves the right bytes, run before and after the timing. The initiator and the target each do their
 * half; the parent calls them in this order: `prepareCheck` at the target, `carryOut` at the initiator, `confirm` at the target.
 */

import type { CompletionQueue, WorkCompletions } from '../../../../verbs/index.js';
import { STATUS } from '../../../../verbs/status.js';
import { fillPattern, hasPattern } from '../peers/pipe.js';
import type { Endpoint } from './endpoint.js';

const TIMEOUT_MS = 10_000;

/** Waits without a core: these steps stand outside the timing. */
async function reapOne(cq: CompletionQueue, wcs: WorkCompletions): Promise<void> {
  while (cq.poll(wcs) === 0) await cq.ready({ timeoutMs: TIMEOUT_MS });
  if (wcs.status[0] !== STATUS.SUCCESS) {
    throw new Error(`a request failed with status ${wcs.status[0]}: ${cq.cause(wcs.causeId[0])?.words ?? 'no cause given'}`);
  }
}

function word(bytes: Uint8Array): BigInt64Array {
  return new BigInt64Array(bytes.buffer, bytes.byteOffset, 1);
}

/** Target: puts in place what the initiator shall find. */
export function prepareCheck(end: Endpoint, seed: number): void {
  const bytes = end.sink.bytes.subarray(0, end.bench.size);
  if (end.bench.op === 'fetch-add' || end.bench.op === 'cmp-swap') Atomics.store(word(end.sink.bytes), 0, BigInt(seed));
  else if (end.bench.op === 'read') fillPattern(bytes, seed);
  else bytes.fill(0);
}

/** Initiator: one operation. Throws when what came back is wrong. */
export async function carryOut(end: Endpoint, seed: number): Promise<void> {
  const { op, size } = end.bench;
  const bytes = end.source.bytes.subarray(0, size);
  const request = end.single;
  if (op === 'read') bytes.fill(0);
  else fillPattern(bytes, seed);
  request.addLo = seed;
  request.addHi = 0;
  request.compareLo = seed;
  request.compareHi = 0;
  request.swapLo = 2 * seed;
  request.swapHi = 0;
  request.post(0, size, 0);
  await reapOne(end.sendCq, end.wcs);
  request.addLo = 1;
  request.compareLo = 0;
  request.swapLo = 0;
  if (op === 'read' && !hasPattern(bytes, seed)) throw new Error('READ returned wrong bytes');
  if ((op === 'fetch-add' || op === 'cmp-swap') && word(bytes)[0] !== BigInt(seed)) {
    throw new Error(`${op} returned ${word(bytes)[0]}, the target held ${seed}`);
  }
}

/** Target: checks what arrived. Throws when it is wrong. */
export async function confirm(end: Endpoint, seed: number): Promise<void> {
  const { op, size } = end.bench;
  if (end.isTwoSided && (op === 'send' || end.bench.metric === 'latency')) {
    await reapOne(end.recvCq, end.wcs);
    end.repost();
  }
  if ((op === 'send' || op === 'write') && !hasPattern(end.sink.bytes.subarray(0, size), seed)) {
    throw new Error(`${op} delivered wrong bytes`);
  }
  if ((op === 'fetch-add' || op === 'cmp-swap') && Atomics.load(word(end.sink.bytes), 0) !== BigInt(2 * seed)) {
    throw new Error(`after ${op} the target holds ${Atomics.load(word(end.sink.bytes), 0)} instead of ${2 * seed}`);
  }
  Atomics.store(word(end.sink.bytes), 0, 0n);
}
