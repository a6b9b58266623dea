/**
 * Connections by name: a unix socket in the abstract namespace carries the messages drawn in ../../connection.ts.
 *
 * An abstract name has no file, so nothing is left behind; it belongs to the user (the uid is part of it, and the kernel says who is at the other end).
 * The socket stays open as long as the connection: its end tells that the peer disconnected or died.
 */

import { createConnection, createServer, type Socket } from 'node:net';
import { type Connection, type ConnectOptions, type Listener, MAX_PRIVATE_DATA } from '../../connection.js';
import { VerbsError } from '../../errors.js';
import type { QpAddress, QueuePair } from '../../queue-pair.js';
import {
  CONNECT_TIMEOUT_MS,
  ManagedConnection,
  ManagedListener,
  type ManagedQueuePair,
  ManagedRequest,
} from '../managed-connection.js';
import type { Connector } from '../provided-device.js';
import { type Waiter, waitOn } from '../waiting.js';
import { ConnectionSocket, type Message } from './connection-socket.js';
import type { ShmDevice } from './device.js';

/** Errors of a socket behind whose name nobody is. */
const NOBODY: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ENOENT', 'ECONNRESET', 'EPIPE']);

/** What is kept of a request. */
interface Asked {
  readonly socket: ConnectionSocket;
  readonly address: QpAddress;
}

type Request = ManagedRequest<Asked>;

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

function decodePrivate(text = ''): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'));
}

export class ConnectionManager implements Connector {
  readonly #device: ShmDevice;
  readonly #listeners = new Set<ManagedListener<Asked>>();
  readonly #connected = new Set<ConnectionSocket>();
  /** Requests that nobody has answered. */
  readonly #requests = new Set<Request>();

  constructor(device: ShmDevice) {
    this.#device = device;
  }

  listen(name: string): Promise<Listener> {
    const path = socketName(name);
    return new Promise((resolve, reject) => {
      const server = createServer();
      const listener = new ManagedListener<Asked>(this.#device, name, name, () => {
        this.#listeners.delete(listener);
        server.close();
      });
      server.unref();
      server.on('connection', (socket) => this.#asked(socket, listener));
      server.once('error', (error: NodeJS.ErrnoException) => {
        reject(
          error.code === 'EADDRINUSE'
            ? new VerbsError('VERBS_BUSY', `somebody listens under '${name}' on this host already: choose another name`)
            : new VerbsError('VERBS_SYSTEM', `cannot listen under '${name}': ${error.message}`, { cause: error }),
        );
      });
      server.listen(path, () => {
        this.#listeners.add(listener);
        resolve(listener);
      });
    });
  }

  #asked(accepted: Socket, listener: ManagedListener<Asked>): void {
    const socket = new ConnectionSocket(accepted);
    accepted.unref();
    const uid = this.#device.door.addon.peerUid(descriptorOf(accepted));
    if (uid !== process.geteuid?.()) {
      socket.finish({ t: 'REJ', reason: `the listener belongs to another user than ${uid}` }, 'foreign user');
      return;
    }
    socket.onMessage = ({ t, address, privateData }) => {
      if (t !== 'REQ' || !address) {
        socket.end('expected a connection request');
        return;
      }
      const request = new ManagedRequest(this, listener, 0, decodePrivate(privateData), { socket, address });
      this.#requests.add(request);
      if (this.#listeners.has(listener)) listener.offer(request);
      else this.reject(request);
    };
  }

  async connect(name: string, qp: QueuePair, options: ConnectOptions): Promise<Connection> {
    options.signal?.throwIfAborted();
    const path = socketName(name);
    const privateData = encodePrivate(options.privateData);
    const socket = new ConnectionSocket(createConnection(path));
    return this.#handshake(socket, options, `the listener '${name}' did not accept`, ({ resolve, reject }) => {
      socket.socket.once('connect', () => socket.send({ t: 'REQ', address: qp.address(), privateData }));
      socket.onMessage = (message) => {
        if (message.t === 'REJ') {
          const why = message.reason ? `: ${message.reason}` : '';
          const words = `the listener '${name}' rejected the connection${why}`;
          const data = message.privateData ? decodePrivate(message.privateData) : undefined;
          reject(new VerbsError('VERBS_REFUSED', words, { privateData: data }));
        } else if (message.t === 'REP' && message.address) {
          qp.connect(message.address, options.attributes).then(() => {
            socket.send({ t: 'RTU' });
            resolve(this.#established(socket, qp, decodePrivate(message.privateData)));
          }, reject);
        }
      };
    });
  }

  async accept(request: Request, qp: QueuePair, options: ConnectOptions): Promise<Connection> {
    const { socket, address } = request.detail;
    const privateData = encodePrivate(options.privateData);
    this.#answer(request);
    return this.#handshake(socket, options, 'the initiator did not confirm', ({ resolve, reject }) => {
      if (socket.socket.destroyed) {
        reject(new VerbsError('VERBS_TIMEOUT', 'the initiator has given up: accept sooner, or let it wait longer (timeoutMs)'));
        return;
      }
      socket.onMessage = ({ t }) => {
        if (t === 'RTU') resolve(this.#established(socket, qp, request.privateData));
      };
      qp.connect(address, options.attributes).then(
        () => socket.send({ t: 'REP', address: qp.address(), privateData }),
        (error: Error) => {
          socket.send({ t: 'REJ', reason: error.message });
          reject(error);
        },
      );
    });
  }

  reject(request: Request, privateData?: Uint8Array): void {
    const data = encodePrivate(privateData);
    this.#answer(request);
    request.detail.socket.finish({ t: 'REJ', privateData: data }, 'rejected');
  }

  #answer(request: Request): void {
    if (!this.#requests.delete(request)) throw new VerbsError('VERBS_ILLEGAL', 'the request was answered already');
    request.listener.forget(request);
  }

  /** Runs a step of the handshake; where it fails, the socket goes. */
  async #handshake(
    socket: ConnectionSocket,
    options: ConnectOptions,
    what: string,
    start: (waiter: Waiter<Connection>) => void,
  ): Promise<Connection> {
    const { timeoutMs = CONNECT_TIMEOUT_MS, signal } = options;
    try {
      return await waitOn<Connection>(this.#device, { timeoutMs, signal }, what, (waiter) => {
        socket.onEnd = (reason, code) => {
          const words = 'nobody listens under that name on this host; start the listener first, or check the name';
          waiter.reject(
            NOBODY.has(code)
              ? new VerbsError('VERBS_NO_DEVICE', `${what}: ${words}`)
              : new VerbsError('VERBS_PEER_LOST', `${what}: ${reason}`),
          );
        };
        start(waiter);
        return () => {};
      });
    } catch (error) {
      socket.onEnd = () => {};
      socket.end((error as Error).message);
      throw error;
    }
  }

  #established(socket: ConnectionSocket, qp: QueuePair, privateData: Uint8Array): Connection {
    const tell = () => socket.finish({ t: 'DREQ' }, 'this side disconnected');
    const connection = new ManagedConnection(qp as ManagedQueuePair, privateData, tell);
    socket.onEnd = (reason) => {
      this.#connected.delete(socket);
      connection.over(reason);
    };
    socket.onMessage = ({ t }: Message) => {
      if (t === 'DREQ') socket.end('the peer disconnected');
    };
    socket.socket.unref();
    this.#connected.add(socket);
    return connection;
  }

  /** The device is going: listeners and connections with it. */
  close(): void {
    for (const listener of [...this.#listeners]) listener.close();
    for (const socket of [...this.#connected]) socket.finish({ t: 'DREQ' }, 'the device was closed');
  }
}

/** Descriptor of a socket; Node keeps it in the handle. */
function descriptorOf(socket: Socket): number {
  return (socket as unknown as { _handle?: { fd?: number } })._handle?.fd ?? -1;
}
