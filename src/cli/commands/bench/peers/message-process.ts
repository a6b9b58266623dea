/**
 * One side of a message system of Node: `tcp`, `unix`, `zeromq`, `grpc` as a process of its own; `messageport` holds both sides, two threads of one
 * process, and the responder is the worker (the second half of this file).
 */

import { createRequire } from 'node:module';
import { connect, createServer, type Socket } from 'node:net';
import { isMainThread, type MessagePort, parentPort, Worker } from 'node:worker_threads';
import type { BenchCase } from '../case.js';
import { serve } from '../child-program.js';
import { callGrpc, serveGrpc } from './grpc-pipe.js';
import { checkPayload, initiate, type Pipe, respond } from './pipe.js';

const ignore = () => {};

/** Messages of `size` bytes over a byte stream. */
function streamPipe(socket: Socket, size: number): Pipe {
  socket.setNoDelay?.(true);
  const pipe: Pipe = { send: (message) => void socket.write(message), onMessage: ignore };
  const partial = new Uint8Array(size);
  let have = 0;
  socket.on('data', (chunk) => {
    let at = 0;
    while (at < chunk.length) {
      if (have === 0 && chunk.length - at >= size) {
        pipe.onMessage(chunk.subarray(at, at + size));
        at += size;
        continue;
      }
      const part = chunk.subarray(at, at + size - have);
      partial.set(part, have);
      at += part.length;
      have += part.length;
      if (have === size) {
        have = 0;
        pipe.onMessage(partial);
      }
    }
  });
  return pipe;
}

function portPipe(port: MessagePort): Pipe {
  const pipe: Pipe = { send: (message) => port.postMessage(message), onMessage: ignore };
  port.on('message', (message: Uint8Array) => pipe.onMessage(message));
  return pipe;
}

/** The part of the `zeromq` package that is used here. */
interface ZeroMqPair extends AsyncIterable<[Uint8Array]> {
  bind(address: string): Promise<void>;
  connect(address: string): void;
  send(message: Uint8Array): Promise<void>;
  sendHighWaterMark: number;
  receiveHighWaterMark: number;
}

function zeroMqPipe(socket: ZeroMqPair): Pipe {
  const pipe: Pipe = { send: ignore, onMessage: ignore };
  // The package refuses a second send while one waits for room, so a send that has to wait holds back the ones after it.
  const queue: Uint8Array[] = [];
  let sending = false;
  const pump = async () => {
    sending = true;
    for (let message = queue.shift(); message; message = queue.shift()) await socket.send(message);
    sending = false;
  };
  pipe.send = (message) => {
    queue.push(message);
    if (!sending) void pump();
  };
  void (async () => {
    for await (const [message] of socket) pipe.onMessage(message);
  })();
  return pipe;
}

interface StartOptions {
  readonly kind: 'tcp' | 'unix' | 'zeromq' | 'grpc' | 'messageport';
  readonly bench: BenchCase;
  /** Path of the socket, or of its file for zeromq. */
  readonly path: string;
  /** The package.json beside which zeromq and gRPC are installed. */
  readonly packages: string;
}

let pipe: Pipe;
let bench: BenchCase;

async function listen(options: StartOptions): Promise<string | number> {
  bench = options.bench;
  if (options.kind === 'zeromq') {
    const socket = zeroMqSocket(options.packages);
    await socket.bind(`ipc://${options.path}`);
    respond(zeroMqPipe(socket), bench);
    return options.path;
  }
  if (options.kind === 'grpc') return serveGrpc(options.packages, (served) => respond(served, bench));
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => respond(streamPipe(socket, bench.size), bench));
    server.on('error', reject);
    if (options.kind === 'unix') server.listen(options.path, () => resolve(options.path));
    else server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
  });
}

function zeroMqSocket(packages: string): ZeroMqPair {
  const { Pair } = createRequire(packages)('zeromq') as { Pair: new () => ZeroMqPair };
  const socket = new Pair();
  socket.sendHighWaterMark = 0;
  socket.receiveHighWaterMark = 0;
  return socket;
}

async function join(options: StartOptions & { address: string | number }): Promise<void> {
  bench = options.bench;
  if (options.kind === 'messageport') {
    const worker = new Worker(new URL(import.meta.url), { workerData: bench });
    pipe = portPipe(worker as unknown as MessagePort);
    return new Promise((resolve, reject) => worker.once('online', resolve).once('error', reject));
  }
  if (options.kind === 'zeromq') {
    const socket = zeroMqSocket(options.packages);
    socket.connect(`ipc://${options.address}`);
    pipe = zeroMqPipe(socket);
    return;
  }
  if (options.kind === 'grpc') {
    pipe = callGrpc(options.packages, Number(options.address));
    return;
  }
  const socket = typeof options.address === 'number' ? connect(options.address, '127.0.0.1') : connect(options.address);
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  pipe = streamPipe(socket, bench.size);
}

if (isMainThread) {
  serve({
    listen,
    join,
    run: ({ batch, batches }: { batch: number; batches: number }) => initiate(pipe, bench, batch, batches),
    check: () => checkPayload(pipe, bench),
  });
} else {
  const { workerData } = await import('node:worker_threads');
  respond(portPipe(parentPort as MessagePort), workerData as BenchCase);
}
