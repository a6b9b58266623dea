/** The thread of a progress worker: a messaging worker that makes progress by itself, driven by calls of the main thread. */

import { parentPort, workerData } from 'node:worker_threads';
import { loadAddon } from '../../native/load.js';
import { openContext } from '../context.js';
import type { Endpoint } from '../endpoint.js';
import { PeerLost } from '../errors.js';
import type { Request } from '../request.js';
import type { MemoryWords, ProgressCall, ProgressFailure, ProgressNews, ProgressOpen } from './progress-messages.js';

/** Views of the main thread's buffers that are kept, so that a buffer is registered once and not at every use. */
const MOST_VIEWS = 1024;

const port = parentPort as NonNullable<typeof parentPort>;
const { context: contextOptions, worker: workerOptions } = workerData as ProgressOpen;
const addon = loadAddon();
const context = await openContext(contextOptions);
const worker = await context.createWorker(workerOptions);
const views = new Map<number, ArrayBuffer>();
const requests = new Map<number, Request>();

const say = (news: ProgressNews, transfer: ArrayBuffer[] = []) => port.postMessage(news, transfer);

function failureOf(error: unknown): ProgressFailure {
  const { code, message } = error as { code?: string; message?: string };
  const lost = error instanceof PeerLost ? error : undefined;
  return { code: code ?? 'MSG_REMOTE', message: message ?? String(error), peer: lost?.peer, operation: lost?.operation };
}

/** The main thread's memory as bytes of this thread. */
function bytesAt({ base, size, offset, length }: MemoryWords): Uint8Array {
  if (length === 0) return new Uint8Array(0);
  let buffer = views.get(base);
  if (buffer === undefined || buffer.byteLength !== size) {
    if (views.size >= MOST_VIEWS) views.clear();
    buffer = addon.viewAt(base, size);
    views.set(base, buffer);
  }
  return new Uint8Array(buffer, offset, length);
}

function endpointAt(number: number): Endpoint {
  return worker.endpoints[number];
}

/** A call that waits: the main thread may cancel it. */
async function tracked(id: number, request: Request | undefined, timeoutMs: number | undefined): Promise<Request | undefined> {
  if (request === undefined) return undefined;
  requests.set(id, request);
  try {
    await request.wait(timeoutMs === undefined ? {} : { timeoutMs });
    return request;
  } finally {
    requests.delete(id);
  }
}

interface Answer {
  readonly values?: readonly number[];
  readonly words?: string;
}

async function answer(call: ProgressCall): Promise<Answer> {
  switch (call.op) {
    case 'connect': {
      const endpoint = worker.connect(call.to);
      await endpoint.ready(call.timeoutMs === undefined ? {} : { timeoutMs: call.timeoutMs });
      return { values: [endpoint.id], words: endpoint.peer };
    }
    case 'listen': {
      const listener = await worker.listen(call.name);
      void (async () => {
        for await (const endpoint of listener) {
          say({ kind: 'arrived', listener: call.name, endpoint: endpoint.id, peer: endpoint.peer });
        }
      })();
      return {};
    }
    case 'send': {
      const handle = worker.postSend(endpointAt(call.endpoint), bytesAt(call.memory), call.lo, call.hi);
      if (handle !== 0) await tracked(call.id, worker.own(handle), call.timeoutMs);
      return {};
    }
    case 'recv': {
      const source = call.from < 0 ? -1 : endpointAt(call.from).source;
      const handle = worker.postRecv(bytesAt(call.memory), call.lo, call.hi, call.maskLo, call.maskHi, source);
      const request = await tracked(call.id, worker.own(handle), call.timeoutMs);
      const { length = 0, tag = 0, source: from = -1 } = request?.received ?? {};
      const bits = BigInt(tag);
      return {
        values: [length, Number(bits & 0xffffffffn), Number(bits >> 32n), worker.endpointOf(from)?.id ?? -1],
      };
    }
    case 'am': {
      const handle = worker.postAm(endpointAt(call.endpoint), call.handler, call.header, bytesAt(call.memory));
      worker.poll();
      if (handle !== 0) await tracked(call.id, worker.own(handle), call.timeoutMs);
      return {};
    }
    case 'handle':
      worker.handle(call.handler, call.isOn ? (message) => deliver(call.handler, message) : undefined);
      return {};
    case 'alloc': {
      const memory = context.alloc(call.bytes);
      const base = addon.addressOf(memory.buffer as ArrayBuffer);
      views.set(base, memory.buffer as ArrayBuffer);
      return { values: [base, memory.buffer.byteLength] };
    }
    case 'cancel':
      requests.get(call.request)?.cancel();
      return {};
    case 'closeEndpoint':
      await endpointAt(call.endpoint)?.close({ force: call.isForced });
      return {};
    case 'close':
      worker.driver.leave();
      await worker.close({ force: call.isForced });
      await context.close();
      return {};
  }
}

/** An active message goes to the main thread whole: its bytes change hands, they are not copied again. */
async function deliver(
  handler: number,
  message: {
    endpoint: Endpoint;
    header: Uint8Array;
    data: Uint8Array | undefined;
    length: number;
    receive(into: Uint8Array): Promise<void>;
  },
): Promise<void> {
  const header = Uint8Array.from(message.header);
  const data = message.data === undefined ? new Uint8Array(message.length) : Uint8Array.from(message.data);
  const endpoint = message.endpoint.id;
  if (message.data === undefined) await message.receive(data);
  // The payload may be registered still: then it is copied once more, because registered memory must stay where it is.
  const given = message.data === undefined ? Uint8Array.from(data) : data;
  say({ kind: 'am', handler, endpoint, header, data: given }, [header.buffer, given.buffer] as ArrayBuffer[]);
}

worker.onEndpoint = (endpoint) => say({ kind: 'arrived', listener: undefined, endpoint: endpoint.id, peer: endpoint.peer });
worker.onError = (error) => say({ kind: 'error', failure: failureOf(error) });
port.on('message', (call: ProgressCall) => {
  answer(call).then(
    ({ values = [], words = '' }) => {
      say({ kind: 'done', id: call.id, values, words });
      if (call.op === 'close') port.close();
    },
    (error: unknown) => say({ kind: 'failed', id: call.id, failure: failureOf(error) }),
  );
});
// Somebody always wants progress: that is what this thread is for.
worker.driver.join();
worker.driver.start();
say({ kind: 'open', address: worker.address });
