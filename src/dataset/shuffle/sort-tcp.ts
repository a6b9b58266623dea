/**
 * The shuffle `sort-tcp`: the classic way. A map task writes its output, ordered by partition, to one file; the block list is broadcast; reducers ask the map's
 * rank over TCP, whose event loop reads the file and sends.
 *
 * ```
 *   request   u32 bytes of the JSON | JSON { token, shuffle, map, attempt, partition }          answer   f64 bytes, or -1 | the bytes
 * ```
 * The token stands in the status of a map output, so only ranks of the job can ask.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, read as readFile, writeSync } from 'node:fs';
import { createServer, connect as openSocket, type Server, type Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import { FetchFailed, systemError } from '../errors.js';
import { checksum } from '../kernels.js';
import type { Segment } from '../memory/segment-pool.js';
import type {
  FetchedBlock,
  MapPlace,
  MapStatus,
  ReadRequest,
  ShuffleFactory,
  ShuffleInfo,
  ShuffleManager,
  ShuffleServices,
  ShuffleWriter,
} from './manager.js';
import { fetchInOrder, Window } from './window.js';

const SEND_BYTES = 256 << 10;
/** A map side that says nothing for so long is taken for gone, ms. */
const SILENCE_MS = 60_000;

interface Request {
  readonly token: string;
  readonly shuffle: string;
  readonly map: number;
  readonly attempt: number;
  readonly partition: number;
}

interface Output {
  readonly fd: number;
  /** First byte and length of every block: runs of partition 0, runs of partition 1, ... */
  readonly blocks: readonly (readonly [offset: number, length: number])[][];
  readonly bytes: number;
}

interface OwnRun {
  readonly lengths: Float64Array;
  readonly memory: Segment;
}

interface Located {
  readonly place: MapPlace;
  readonly status: MapStatus;
}

/** What stands in a status: where to connect, and the checksum of each block of each partition. */
interface Descriptor {
  readonly address: string;
  readonly port: number;
  readonly token: string;
  readonly lengths: readonly (readonly number[])[];
  readonly checksums: readonly (readonly number[])[];
}

class SortTcpShuffle implements ShuffleManager {
  readonly name = 'sort-tcp';
  readonly blockList = 'broadcast';
  readonly #services: ShuffleServices;
  readonly #server: Server;
  readonly #port: number;
  readonly #outputs = new Map<string, Map<string, Output>>();
  /** Connections by address, in use one request at a time. */
  readonly #idle = new Map<string, Connection[]>();
  readonly #sockets = new Set<Socket>();
  readonly #token = randomBytes(16).toString('hex');

  constructor(services: ShuffleServices, server: Server, port: number) {
    this.#services = services;
    this.#server = server;
    this.#port = port;
    server.on('connection', (socket) => this.#serve(socket));
  }

  register({ id }: ShuffleInfo): void {
    if (!this.#outputs.has(id)) this.#outputs.set(id, new Map());
  }

  writer(info: ShuffleInfo, map: number, attempt: number): ShuffleWriter {
    const runs: OwnRun[] = [];
    return {
      run: (bytes) => {
        const run: OwnRun = { lengths: new Float64Array(info.partitions), memory: this.#services.pool.take(bytes) };
        runs.push(run);
        return { bytes: run.memory.bytes, seal: (lengths) => run.lengths.set(lengths) };
      },
      commit: async () => {
        try {
          return this.#commit(info, map, attempt, runs);
        } finally {
          for (const { memory } of runs) memory.release();
        }
      },
      abort: () => {
        for (const { memory } of runs) memory.release();
      },
    };
  }

  #commit(info: ShuffleInfo, map: number, attempt: number, runs: readonly OwnRun[]): MapStatus {
    const { disk, counters, rank, address, checksums: wanted } = this.#services;
    const total = runs.reduce((sum, { memory }) => sum + memory.bytes.length, 0);
    disk.take(total);
    const fd = disk.open();
    const lengths = new Float64Array(info.partitions);
    const blocks: [number, number][][] = Array.from({ length: info.partitions }, () => []);
    const checksums: number[][] = Array.from({ length: info.partitions }, () => []);
    try {
      let base = 0;
      for (const { lengths: parts, memory } of runs) {
        for (let done = 0; done < memory.bytes.length; ) {
          done += writeSync(fd, memory.bytes, done, Math.min(1 << 24, memory.bytes.length - done), base + done);
        }
        let at = 0;
        for (let p = 0; p < info.partitions; p++) {
          if (parts[p] === 0) continue;
          blocks[p].push([base + at, parts[p]]);
          checksums[p].push(wanted ? checksum(memory.bytes.subarray(at, at + parts[p])) : 0);
          lengths[p] += parts[p];
          at += parts[p];
        }
        base += memory.bytes.length;
      }
    } catch (error) {
      closeSync(fd);
      disk.budget.give(total);
      throw systemError(`writing map output to ${disk.path}`, error);
    }
    counters.bytesWritten += total;
    counters.bytesInFiles += total;
    const outputs = this.#outputs.get(info.id);
    if (outputs) outputs.set(`${map}:${attempt}`, { fd, blocks, bytes: total });
    else {
      closeSync(fd); // the shuffle ended meanwhile
      disk.budget.give(total);
    }
    const descriptor: Descriptor = {
      address,
      port: this.#port,
      token: this.#token,
      lengths: blocks.map((list) => list.map(([, length]) => length)),
      checksums,
    };
    return { rank, attempt, lengths, descriptor: new Uint8Array(serialize(descriptor)) };
  }

  // ---- the map side: answering ----

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let rest: Buffer = Buffer.alloc(0);
    let busy: Promise<void> = Promise.resolve();
    socket.on('data', (chunk) => {
      rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
        const length = rest.readUInt32LE(0);
        const request = JSON.parse(rest.toString('utf8', 4, 4 + length)) as Request;
        rest = rest.subarray(4 + length);
        busy = busy
          .then(() => this.#answer(socket, request))
          .catch(() => {
            socket.destroy();
          });
      }
    });
  }

  async #answer(socket: Socket, { token, shuffle, map, attempt, partition }: Request): Promise<void> {
    const output = token === this.#token ? this.#outputs.get(shuffle)?.get(`${map}:${attempt}`) : undefined;
    const blocks = output?.blocks[partition];
    const head = Buffer.alloc(8);
    head.writeDoubleLE(blocks ? blocks.reduce((sum, [, length]) => sum + length, 0) : -1);
    socket.write(head);
    for (const [offset, length] of blocks ?? []) {
      for (let done = 0; done < length; ) {
        const chunk = Buffer.allocUnsafe(Math.min(SEND_BYTES, length - done));
        const n = await readAt((output as Output).fd, chunk, offset + done);
        if (n === 0) throw new Error('map output is shorter than it was');
        done += n;
        if (!socket.write(chunk.subarray(0, n))) await drained(socket);
      }
    }
  }

  // ---- the reduce side: asking ----

  async *reader({ shuffle, partition, places, into, signal }: ReadRequest): AsyncIterable<FetchedBlock> {
    const { counters, windowBytes } = this.#services;
    const window = new Window(windowBytes);
    const found = await Promise.all(places.map((place) => this.#locate(shuffle, place)));
    let at = 0;
    yield* fetchInOrder(window, found.length, 8, counters, signal, (map) => {
      const length = found[map].status.lengths[partition];
      const target = into?.subarray(at, at + length);
      at += length;
      return this.#fetch(shuffle, partition, found[map], map, window, target);
    });
  }

  async #locate(info: ShuffleInfo, place: MapPlace): Promise<Located> {
    const status = await this.#services.status(info.id, place);
    if (!status) throw new FetchFailed(info.id, [place.map], `the block list has no output of rank ${place.rank}`);
    return { place, status };
  }

  async #fetch(
    info: ShuffleInfo,
    partition: number,
    { place, status }: Located,
    turn: number,
    window: Window,
    into: Uint8Array | undefined,
  ): Promise<FetchedBlock[]> {
    const { address, port, token, lengths, checksums } = deserialize(status.descriptor) as Descriptor;
    const total = status.lengths[partition];
    if (total === 0) return [];
    const { pool, counters, checksums: wanted } = this.#services;
    await window.enter(total, turn);
    const segment = into ? undefined : pool.take(total, true);
    const memory = into ?? (segment as Segment).bytes;
    let open = lengths[partition].length;
    const release = () => {
      segment?.release();
      window.leave(total);
    };
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        const { map, attempt: of } = place;
        await this.#ask(address, port, { token, shuffle: info.id, map, attempt: of, partition }, memory);
      } catch (error) {
        release();
        throw new FetchFailed(info.id, [place.map], (error as Error).message);
      }
      counters.bytesRead += total;
      const blocks: FetchedBlock[] = [];
      let at = 0;
      let isRight = true;
      for (const [i, length] of lengths[partition].entries()) {
        const bytes = memory.subarray(at, at + length);
        isRight &&= !wanted || checksum(bytes) === checksums[partition][i];
        at += length;
        blocks.push({
          map: place.map,
          bytes,
          release: () => {
            if (--open === 0) release();
          },
        });
      }
      if (isRight) {
        if (into) {
          window.leave(total); // it is where it was wanted
          return blocks.map(({ map, bytes }) => ({ map, bytes, release: () => {} }));
        }
        return blocks;
      }
      counters.blocksRefetched++;
    }
    release();
    throw new FetchFailed(info.id, [place.map], 'the block came damaged twice');
  }

  async #ask(address: string, port: number, request: Request, into: Uint8Array): Promise<void> {
    const key = `${address}:${port}`;
    const idle = this.#idle.get(key) ?? [];
    this.#idle.set(key, idle);
    const used = idle.pop();
    const connection = used?.isOpen ? used : await Connection.open(address, port);
    try {
      await connection.ask(request, into);
      idle.push(connection);
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  discard(shuffle: string, map: number, attempt: number): void {
    const outputs = this.#outputs.get(shuffle);
    const output = outputs?.get(`${map}:${attempt}`);
    if (!output) return;
    outputs?.delete(`${map}:${attempt}`);
    closeSync(output.fd);
    this.#services.disk.budget.give(output.bytes);
  }

  unregister(shuffle: string): void {
    for (const key of this.#outputs.get(shuffle)?.keys() ?? []) {
      const [map, attempt] = key.split(':');
      this.discard(shuffle, Number(map), Number(attempt));
    }
    this.#outputs.delete(shuffle);
  }

  async stop(): Promise<void> {
    for (const id of [...this.#outputs.keys()]) this.unregister(id);
    for (const list of this.#idle.values()) for (const connection of list) connection.close();
    this.#idle.clear();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

/** One connection to a map's rank: a question, then its answer. */
class Connection {
  readonly #socket: Socket;
  #into: Uint8Array = new Uint8Array(0);
  #head = Buffer.alloc(8);
  #got = 0;
  #done: (() => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#take(chunk));
    socket.setTimeout(SILENCE_MS);
    socket.on('timeout', () => socket.destroy(new Error(`the map side said nothing for ${SILENCE_MS} ms`)));
    socket.on('error', (error) => this.#fail?.(error));
    socket.on('close', () => this.#fail?.(new Error('the connection to the map side was closed')));
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  static open(address: string, port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = openSocket({ host: address, port, noDelay: true, timeout: SILENCE_MS });
      socket.once('error', reject);
      socket.once('timeout', () => socket.destroy(new Error(`no connection to ${address}:${port} within ${SILENCE_MS} ms`)));
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new Connection(socket));
      });
    });
  }

  ask(request: Request, into: Uint8Array): Promise<void> {
    const text = JSON.stringify(request);
    const length = Buffer.byteLength(text);
    const message = Buffer.alloc(4 + length);
    message.writeUInt32LE(length);
    message.write(text, 4);
    this.#into = into;
    this.#got = 0;
    return new Promise((resolve, reject) => {
      this.#done = resolve;
      this.#fail = reject;
      this.#socket.write(message);
    });
  }

  #take(chunk: Buffer): void {
    let from = 0;
    if (this.#got < 8) {
      from = Math.min(8 - this.#got, chunk.length);
      chunk.copy(this.#head, this.#got, 0, from);
      this.#got += from;
      if (this.#got < 8) return;
      if (this.#head.readDoubleLE() !== this.#into.length) {
        this.#fail?.(new Error('the map side has no such block'));
        return;
      }
    }
    this.#into.set(chunk.subarray(from), this.#got - 8);
    this.#got += chunk.length - from;
    if (this.#got === this.#into.length + 8) this.#done?.();
  }

  close(): void {
    this.#fail = undefined;
    this.#socket.destroy();
  }
}

function readAt(fd: number, into: Buffer, offset: number): Promise<number> {
  return new Promise((resolve, reject) => {
    readFile(fd, into, 0, into.length, offset, (error, n) => (error ? reject(error) : resolve(n)));
  });
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    if (socket.destroyed) reject(new Error('closed'));
    socket.once('drain', resolve);
    socket.once('close', () => reject(new Error('closed')));
  });
}

export const sortTcp: ShuffleFactory = (services) =>
  new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true });
    server.once('error', reject);
    server.listen({ host: services.address, port: 0 }, () => {
      const address = server.address();
      resolve(new SortTcpShuffle(services, server, typeof address === 'object' && address ? address.port : 0));
    });
  });
