/** gRPC as a pipe: one call that streams both ways over HTTP/2 on loopback. Messages are bytes as they are, so no time goes into a format. */

import { createRequire } from 'node:module';
import type { Pipe } from './pipe.js';

const PATH = '/verbena.Bench/Stream';
const LONGEST = 1 << 30;

/** The part of a streaming call that is used here. */
interface Call {
  write(message: Uint8Array): boolean;
  on(event: 'data', listener: (message: Uint8Array) => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
}

/** The part of the package `@grpc/grpc-js` that is used here. */
interface Grpc {
  Server: new (
    options: object,
  ) => {
    addService(service: object, implementation: Readonly<Record<string, (call: Call) => void>>): void;
    bindAsync(address: string, credentials: unknown, done: (error: Error | null, port: number) => void): void;
  };
  ServerCredentials: { createInsecure(): unknown };
  credentials: { createInsecure(): unknown };
  Client: new (
    address: string,
    credentials: unknown,
    options: object,
  ) => {
    makeBidiStreamRequest(path: string, serialize: (message: Buffer) => Buffer, deserialize: (message: Buffer) => Buffer): Call;
  };
}

const OPTIONS = { 'grpc.max_receive_message_length': LONGEST, 'grpc.max_send_message_length': LONGEST };
const same = (message: Buffer): Buffer => message;

const load = (packages: string): Grpc => createRequire(packages)('@grpc/grpc-js') as Grpc;

function pipeOf(call: Call): Pipe {
  const pipe: Pipe = {
    send: (message) => void call.write(Buffer.from(message.buffer, message.byteOffset, message.byteLength)),
    onMessage: () => {},
  };
  call.on('data', (message) => pipe.onMessage(message));
  call.on('error', () => {}); // the other process ended: the measurement is over
  return pipe;
}

/** Serves calls; resolves with the port. @param packages the package.json beside which the package is installed. */
export function serveGrpc(packages: string, arrived: (pipe: Pipe) => void): Promise<number> {
  const grpc = load(packages);
  const server = new grpc.Server(OPTIONS);
  const service = {
    stream: {
      path: PATH,
      requestStream: true,
      responseStream: true,
      requestSerialize: same,
      requestDeserialize: same,
      responseSerialize: same,
      responseDeserialize: same,
    },
  };
  server.addService(service, { stream: (call) => arrived(pipeOf(call)) });
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
      if (error) reject(error);
      else resolve(port);
    });
  });
}

/** Begins a call. */
export function callGrpc(packages: string, port: number): Pipe {
  const grpc = load(packages);
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), OPTIONS);
  return pipeOf(client.makeBidiStreamRequest(PATH, same, same));
}
