/**
 * The TCP side of the store: accepts, checks the secret, and hands authenticated requests on. It runs in the launcher, or in a thread of rank 0.
 *
 * Whoever connects has ten seconds and 4 KiB to prove the secret; then frames may be as long as a value. A connection whose first word is the
 * lifeline's is handed over as it is: its ticket, which only an authenticated rank has, is checked there.
 */

import { createServer, type Server, type Socket } from 'node:net';
import { LaunchError } from '../errors.js';
import { FRAME } from '../lifeline.js';
import { MAGIC, MIN_SECRET_LENGTH, makeNonce, PROTOCOL, proofOf, proves } from './authentication.js';
import { encodeFrame, type Frame, FrameReader, readFrames } from './frame.js';
import { MAX_VALUE_BYTES } from './store.js';

const STRANGER_FRAME_BYTES = 4096;
const STRANGER_MS = 10_000;
const MAX_STRANGERS = 1024;
/** Refusals that are logged one by one; later ones only counted. */
const MAX_LOGGED = 20;

/** An authenticated client. */
export interface Client {
  /** Number of the connection, from 1. */
  readonly id: number;
  /** Set by `join`. */
  rank: number | undefined;
  /** Called once when the connection ends. */
  readonly endings: Set<() => void>;
  reply(header: object, value?: Uint8Array): void;
}

export interface ServerOptions {
  /** The job's secret, 16 characters or more. */
  readonly secret: string;
  readonly version: string;
  /** Address to listen on. */
  readonly address: string;
  /** 0: any free one. */
  readonly port: number;
  /** A line for whoever runs the job: refusals. */
  log(line: string): void;
  request(client: Client, frame: Frame): void;
  lifeline(socket: Socket, first: Buffer): void;
}

export class StoreServer {
  readonly #options: ServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #strangers = 0;
  #clients = 0;
  #refused = 0;

  private constructor(options: ServerOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }

  /** Connections that were refused so far. */
  get refused(): number {
    return this.#refused;
  }

  /** @throws LAUNCH_PORT_IN_USE, LAUNCH_INVALID for a short secret. */
  static async listen(options: ServerOptions): Promise<StoreServer> {
    if (options.secret.length < MIN_SECRET_LENGTH) {
      throw new LaunchError(
        'LAUNCH_INVALID',
        `the job's secret has ${options.secret.length} characters and needs ${MIN_SECRET_LENGTH}: ` +
          'export VERBENA_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d " \\n")',
      );
    }
    const server = new StoreServer(options);
    try {
      await server.#listen(options.address);
    } catch (error) {
      // A kernel without IPv6 has no address '::' that stands for all.
      if (options.address !== '::' || (error as NodeJS.ErrnoException).code !== 'EAFNOSUPPORT')
        throw listenError(error as Error, options);
      await server.#listen('0.0.0.0').catch((other) => {
        throw listenError(other, options);
      });
    }
    return server;
  }

  #listen(host: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port: this.#options.port, exclusive: true }, resolve);
    });
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Ends all connections. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroySoon();
  }

  /** The event loop may end while the server is open. */
  unref(): void {
    this.#server.unref();
  }

  #refuse(socket: Socket, why: string, code: string, message: string): void {
    this.#refused++;
    const from = `${socket.remoteAddress}:${socket.remotePort}`;
    if (this.#refused <= MAX_LOGGED) this.#options.log(`store: refused ${from}: ${why}`);
    if (this.#refused === MAX_LOGGED) this.#options.log('store: further refusals are not logged');
    socket.end(encodeFrame({ error: { code, message } }));
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    if (this.#strangers >= MAX_STRANGERS) {
      socket.destroy();
      return;
    }
    this.#strangers++;
    const leaveStrangers = once(() => {
      this.#strangers--;
      clearTimeout(timer);
    });
    const timer = setTimeout(() => socket.destroy(), STRANGER_MS);
    socket.on('close', leaveStrangers);
    let held = Buffer.alloc(0);
    const first = (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      if (held.length < 4) return;
      socket.off('data', first);
      if (held.readUInt32LE(0) === FRAME.attach) {
        leaveStrangers();
        this.#options.lifeline(socket, held);
      } else {
        this.#authenticate(socket, held, leaveStrangers);
      }
    };
    socket.on('data', first);
  }

  #authenticate(socket: Socket, held: Buffer, known: () => void): void {
    const { secret, version } = this.#options;
    const nonce = makeNonce();
    let step = (frame: Frame): void => {
      const { magic, protocol, version: theirs, nonce: clientNonce } = frame.header;
      if (magic !== MAGIC || typeof clientNonce !== 'string') {
        this.#refuse(
          socket,
          'it does not speak the protocol of the store',
          'LAUNCH_REFUSED',
          'this is not a Verbena store client',
        );
        return;
      }
      if (protocol !== PROTOCOL || theirs !== version) {
        const words =
          `this process has Verbena ${theirs} (protocol ${protocol}) and the coordinator of the job ${version} (protocol ${PROTOCOL}): ` +
          'install the same version on every host and start the job again';
        this.#refuse(socket, `it has version ${theirs}, protocol ${protocol}`, 'LAUNCH_VERSION', words);
        return;
      }
      socket.write(encodeFrame({ magic: MAGIC, protocol: PROTOCOL, version, nonce }));
      step = (proof) => {
        if (!proves(proof.header['mac'], proofOf(secret, 'client', nonce, clientNonce))) {
          const missing = proof.header['mac'] === undefined;
          const words =
            `the store refused this process: its secret is ${missing ? 'missing' : 'wrong'}. All ranks of a job must have the same ` +
            'VERBENA_SECRET; a rank of another job, or one started by hand, has not.';
          this.#refuse(socket, `${missing ? 'no' : 'wrong'} secret`, 'LAUNCH_REFUSED', words);
          return;
        }
        known();
        reader.allow(MAX_VALUE_BYTES + 64 * 1024);
        const client = this.#client(socket);
        step = (request) => this.#options.request(client, request);
        socket.write(encodeFrame({ mac: proofOf(secret, 'server', nonce, clientNonce) }));
      };
    };
    const reader = new FrameReader(STRANGER_FRAME_BYTES, (frame) => step(frame));
    const fail = (error: Error) => {
      if (socket.writableEnded) return;
      this.#refuse(socket, error.message, 'LAUNCH_REFUSED', `the store ended the connection: ${error.message}`);
    };
    readFrames(socket, reader, fail);
    socket.emit('data', held);
  }

  #client(socket: Socket): Client {
    const endings = new Set<() => void>();
    socket.on('close', () => {
      for (const end of endings) end();
    });
    return {
      id: ++this.#clients,
      rank: undefined,
      endings,
      reply: (header, value) => {
        if (socket.writable) socket.write(encodeFrame(header, value));
      },
    };
  }
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    action();
  };
}

function listenError(error: NodeJS.ErrnoException, { address, port }: ServerOptions): Error {
  if (error.code === 'EADDRINUSE') {
    return new LaunchError(
      'LAUNCH_PORT_IN_USE',
      `port ${port} of ${address} is in use, so the store of this job cannot listen there. Another job, or a rank of an earlier one, may hold it: ` +
        `see \`ss -ltnp 'sport = :${port}'\`; or choose another port (--port, VERBENA_STORE or MASTER_PORT), 0 with verbena run for any free one.`,
      { cause: error },
    );
  }
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return new LaunchError(
      'LAUNCH_HOST',
      `the store cannot listen on ${address}: this host does not have that address. The address of the store must be one of the host of rank 0: ` +
        'check VERBENA_STORE or MASTER_ADDR.',
      { cause: error },
    );
  }
  return error;
}
