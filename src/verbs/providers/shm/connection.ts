/**
 * Connection management by name: a unix socket in the abstract namespace carries the messages drawn in ../../connection.ts.
 *
 * An abstract name has no file, so nothing is left behind; it belongs to the user (the uid is part of it, and the kernel says who is at the other end).
 * The socket stays open as long as the connection: its end tells that the peer disconnected or died.
 *
 * ```
 *   one message a line, JSON: { v: 1, t: 'REQ' | 'REP' | 'REJ' | 'RTU' | 'DREQ', address?, privateData?: base64, reason? }
 * ```
 */

import { createConnection, createServer, type Server, type Socket } from 'node:net';
import {
  type AcceptOptions,
  type Connection,
  type ConnectionRequest,
  type ConnectOptions,
  type Listener,
  MAX_PRIVATE_DATA,
} from '../../connection.js';
import { VerbsError } from '../../errors.js';
import type { QpAddress, QueuePair } from '../../queue-pair.js';
import type { ShmDevice } from './device.js';

const VERSION = 1;
const LONGEST_LINE = 4096;
const DEFAULT_TIMEOUT_MS = 5000;

interface Message {
  readonly v: number;
  readonly t: 'REQ' | 'REP' | 'REJ' | 'RTU' | 'DREQ';
  readonly address?: QpAddress;
  readonly privateData?: string;
  readonly reason?: string;
}

function socketName(name: string): string {
  if (typeof name !== 'string' || !/^[\w.:/-]{1,80}$/.test(name)) {
    throw new VerbsError('VERBS_INVALID', `a name is 1 to 80 letters, digits, '.', ':', '/', '_' or '-': got '${String(name)}'`);
  }
  return `\0verbena/${process.geteuid?.() ?? 0}/${name}`;
}

function encodePrivate(data: Uint8Array | undefined): string {
  if (data === undefined) return '';
  if (data.length > MAX_PRIVATE_DATA) {
    throw new VerbsError('VERBS_INVALID', `private data is at most ${MAX_PRIVATE_DATA} bytes: got ${data.length}`);
  }
  return Buffer.from(data).toString('base64');
}

/** A socket that speaks in messages. */
class Wire {
  readonly socket: Socket;
  onMessage: (message: Message) => void = () => {};
  onEnd: (reason: string, code?: string) => void = () => {};
  #text = '';
  #ended = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => this.#take(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => this.end(error.message, error.code));
    socket.on('close', () => this.end('the peer closed the connection or ended'));
  }

  #take(chunk: string): void {
    this.#text += chunk;
    if (this.#text.length > LONGEST_LINE && !this.#text.includes('\n')) {
      this.end('the peer sent something that is no connection message');
      return;
    }
    for (let at = this.#text.indexOf('\n'); at >= 0; at = this.#text.indexOf('\n')) {
      const line = this.#text.slice(0, at);
      this.#text = this.#text.slice(at + 1);
      try {
        const message = JSON.parse(line) as Message;
        if (message.v !== VERSION)
          throw new Error(`message version ${message.v}, this side speaks ${VERSION}: update the older side`);
        this.onMessage(message);
      } catch (error) {
        this.end((error as Error).message);
        return;
      }
    }
  }

  send(message: Omit<Message, 'v'>): void {
    if (!this.#ended) this.socket.write(`${JSON.stringify({ v: VERSION, ...message })}\n`);
  }

  end(reason: string, code?: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.socket.destroy();
    this.onEnd(reason, code);
  }

  /** Sends what is left, then closes. */
  finish(message: Omit<Message, 'v'>, reason: string): void {
    this.send(message);
    this.#ended = true;
    this.socket.end(() => this.socket.destroy());
    this.onEnd(reason);
  }
}

function established(device: ShmDevice, wire: Wire, qp: QueuePair, privateData: string | undefined): Connection {
  let close: (reason: string) => void = () => {};
  const closed = new Promise<string>((resolve) => {
    close = resolve;
  });
  const toError = () => {
    if (qp.state !== 'RESET' && qp.state !== 'ERR') {
      try {
        qp.modify('ERR');
      } catch {
        // closed already
      }
    }
  };
  const atDeviceClose = { close: () => wire.finish({ t: 'DREQ' }, 'the device was closed') };
  wire.onEnd = (reason) => {
    device.noteConnection(atDeviceClose, false);
    toError();
    close(reason);
  };
  device.noteConnection(atDeviceClose, true);
  wire.onMessage = (message) => {
    if (message.t === 'DREQ') wire.end('the peer disconnected');
  };
  wire.socket.unref();
  const disconnect = () => wire.finish({ t: 'DREQ' }, 'disconnected');
  return {
    qp,
    privateData: new Uint8Array(Buffer.from(privateData ?? '', 'base64')),
    closed,
    disconnect,
    [Symbol.dispose]: disconnect,
  };
}

/** Runs a step of the handshake with a timeout and a signal; on either the socket goes. */
function handshake<T>(
  wire: Wire,
  options: ConnectOptions,
  what: string,
  start: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  return new Promise<T>((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    };
    const fail = (error: Error) => {
      done();
      wire.onEnd = () => {};
      wire.end(error.message);
      reject(error);
    };
    const abort = () => fail(signal?.reason as Error);
    const timer = setTimeout(() => fail(new VerbsError('VERBS_TIMEOUT', `${what} within ${timeoutMs} ms`)), timeoutMs);
    signal?.addEventListener('abort', abort, { once: true });
    wire.onEnd = (reason, code) => {
      const nobody = code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ECONNRESET' || code === 'EPIPE';
      fail(
        nobody
          ? new VerbsError(
              'VERBS_NO_DEVICE',
              `${what}: nobody listens under that name on this host; start the listener first, or check the name`,
            )
          : new VerbsError('VERBS_PEER_LOST', `${what}: ${reason}`),
      );
    };
    start((value) => {
      done();
      resolve(value);
    }, fail);
  });
}

export async function connectTo(device: ShmDevice, name: string, qp: QueuePair, options: ConnectOptions): Promise<Connection> {
  options.signal?.throwIfAborted();
  const path = socketName(name);
  const privateData = encodePrivate(options.privateData);
  const wire = new Wire(createConnection(path));
  return handshake<Connection>(wire, options, `the listener '${name}' did not accept`, (resolve, reject) => {
    wire.socket.once('connect', () => wire.send({ t: 'REQ', address: qp.address(), privateData }));
    wire.onMessage = (message) => {
      if (message.t === 'REJ') {
        const data = message.privateData ? new Uint8Array(Buffer.from(message.privateData, 'base64')) : undefined;
        const why = message.reason ? `: ${message.reason}` : '';
        reject(new VerbsError('VERBS_REFUSED', `the listener '${name}' rejected the connection${why}`, { privateData: data }));
      } else if (message.t === 'REP' && message.address) {
        qp.connect(message.address, options.attributes).then(() => {
          wire.send({ t: 'RTU' });
          resolve(established(device, wire, qp, message.privateData));
        }, reject);
      }
    };
  });
}

class Request implements ConnectionRequest {
  readonly privateData: Uint8Array;
  readonly #wire: Wire;
  readonly #address: QpAddress;
  readonly #sent: string;
  readonly #device: ShmDevice;
  #answered = false;

  constructor(device: ShmDevice, wire: Wire, message: Message) {
    this.#device = device;
    this.#wire = wire;
    this.#address = message.address as QpAddress;
    this.#sent = message.privateData ?? '';
    this.privateData = new Uint8Array(Buffer.from(this.#sent, 'base64'));
  }

  async accept(qp: QueuePair, options: ConnectOptions = {}): Promise<Connection> {
    const privateData = encodePrivate(options.privateData);
    this.#answer();
    const wire = this.#wire;
    return handshake<Connection>(wire, options, 'the initiator did not confirm', (resolve, reject) => {
      if (wire.socket.destroyed) {
        reject(new VerbsError('VERBS_TIMEOUT', 'the initiator has given up: accept sooner, or let it wait longer (timeoutMs)'));
        return;
      }
      wire.onMessage = (message) => {
        if (message.t === 'RTU') resolve(established(this.#device, wire, qp, this.#sent));
      };
      qp.connect(this.#address, options.attributes).then(
        () => wire.send({ t: 'REP', address: qp.address(), privateData }),
        (error: Error) => {
          wire.send({ t: 'REJ', reason: error.message });
          reject(error);
        },
      );
    });
  }

  reject(privateData?: Uint8Array): void {
    const data = encodePrivate(privateData);
    this.#answer();
    this.#wire.finish({ t: 'REJ', privateData: data }, 'rejected');
  }

  get answered(): boolean {
    return this.#answered;
  }

  #answer(): void {
    if (this.#answered) throw new VerbsError('VERBS_ILLEGAL', 'the request was answered already');
    this.#answered = true;
  }

  /** The listener closes: whoever was not answered is rejected. */
  abandon(): void {
    if (!this.#answered) this.reject();
  }
}

class NamedListener implements Listener {
  readonly name: string;
  readonly target: string;
  readonly #server: Server;
  readonly #device: ShmDevice;
  readonly #waiting: Request[] = [];
  /** Handed out by accept; those still unanswered at close are rejected too. */
  readonly #open = new Set<Request>();
  readonly #takers = new Set<() => void>();
  #closed = false;

  constructor(device: ShmDevice, name: string, server: Server) {
    this.#device = device;
    this.name = name;
    this.target = name;
    this.#server = server;
    server.unref();
  }

  offer(request: Request): void {
    if (this.#closed) {
      request.abandon();
      return;
    }
    this.#waiting.push(request);
    for (const take of [...this.#takers]) take();
  }

  async accept(options: AcceptOptions = {}): Promise<ConnectionRequest> {
    const deadline = options.timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + options.timeoutMs;
    for (;;) {
      options.signal?.throwIfAborted();
      const request = this.#waiting.shift();
      if (request) {
        for (const answered of [...this.#open].filter((r) => r.answered)) this.#open.delete(answered);
        this.#open.add(request);
        return request;
      }
      if (this.#closed) throw new VerbsError('VERBS_CLOSED', `the listener '${this.name}' is closed`);
      if (performance.now() >= deadline)
        throw new VerbsError('VERBS_TIMEOUT', `nobody connected to '${this.name}' within ${options.timeoutMs} ms`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          options.signal?.removeEventListener('abort', wake);
          this.#takers.delete(wake);
          if (this.#takers.size === 0) this.#server.unref();
          resolve();
        };
        const timer =
          deadline === Number.POSITIVE_INFINITY ? undefined : setTimeout(wake, Math.max(1, deadline - performance.now()));
        options.signal?.addEventListener('abort', wake, { once: true });
        this.#takers.add(wake);
        if (options.keepAlive !== false) this.#server.ref();
      });
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ConnectionRequest, void, undefined> {
    for (;;) {
      try {
        yield await this.accept();
      } catch (error) {
        if (VerbsError.is(error) && error.code === 'VERBS_CLOSED') return;
        throw error;
      }
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const request of [...this.#waiting.splice(0), ...this.#open]) request.abandon();
    this.#open.clear();
    this.#device.noteConnection(this, false);
    this.#server.close();
    for (const take of [...this.#takers]) take();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Descriptor of a socket; Node keeps it in the handle. */
function descriptorOf(socket: Socket): number {
  return (socket as unknown as { _handle?: { fd?: number } })._handle?.fd ?? -1;
}

export function listenOn(device: ShmDevice, name: string): Promise<Listener> {
  const path = socketName(name);
  return new Promise((resolve, reject) => {
    const server = createServer();
    const listener = new NamedListener(device, name, server);
    server.on('connection', (socket) => {
      const wire = new Wire(socket);
      socket.unref();
      const uid = device.door.addon.peerUid(descriptorOf(socket));
      if (uid !== process.geteuid?.()) {
        wire.finish({ t: 'REJ', reason: `the listener belongs to another user than ${uid}` }, 'foreign user');
        return;
      }
      wire.onMessage = (message) => {
        if (message.t === 'REQ' && message.address) listener.offer(new Request(device, wire, message));
        else wire.end('expected a connection request');
      };
    });
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? new VerbsError('VERBS_BUSY', `somebody listens under '${name}' on this host already: choose another name`)
          : new VerbsError('VERBS_SYSTEM', `cannot listen under '${name}': ${error.message}`, { cause: error }),
      );
    });
    server.listen(path, () => {
      device.noteConnection(listener, true);
      resolve(listener);
    });
  });
}
