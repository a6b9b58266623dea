/**
 * The shuffle `rdma`: map output lies in memory that peers may READ, in the arena or in mapped files, and nobody is asked for it.
 *
 * ```
 *   map rank                                                   reduce rank
 *     task fills a run in registered memory
 *     WRITE: the row of the map into the table of every rank ──────> [ table: one row per map: key, offsets, checksums ]
 *                                                                     reducer looks its row up at home
 *     [ run: p0 | p1 | p2 ... ] <──────────── READ, a bounded number of bytes in flight ──────────  reducer
 *     (the map side's thread takes no part in this)
 * ```
 *
 * A row that is not there, because the rank that should have it had not registered yet or because there are several runs, is asked for once.
 */

import type { Endpoint, ExposedMemory } from '../../messaging/index.js';
import { FetchFailed } from '../errors.js';
import { checksum } from '../kernels.js';
import type { Segment } from '../memory/segment-pool.js';
import { type BlockRow, decodeRow, encodeRow, type RowRun, rowLength } from './block-row.js';
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

/** Handler of "my table of this shuffle is here". */
const HANDLER = 60_110;
const READ_MS = 60_000;

interface OwnRun {
  readonly segment: Segment;
  readonly offsets: Float64Array;
  /** Of each partition; filled at commit. */
  readonly checksums: Float64Array;
}

interface Output {
  readonly runs: readonly OwnRun[];
  readonly row: Float64Array;
}

/** One block before it is read: here, or in a run of a peer. */
interface LocatedBlock {
  readonly length: number;
  readonly local?: Uint8Array;
  /** Checksum of a local one. */
  readonly sum?: number;
  readonly remote?: RowRun;
  /** Where the reader wants it. */
  into?: Uint8Array;
}

interface Located {
  readonly place: MapPlace;
  readonly blocks: LocatedBlock[];
}

/** Gives every block its part of the reader's memory. */
function placeBlocks(found: readonly Located[], into: Uint8Array): void {
  let at = 0;
  for (const { blocks } of found) {
    for (const block of blocks) {
      block.into = into.subarray(at, at + block.length);
      at += block.length;
    }
  }
}

/** What this rank knows of one shuffle. */
interface Known {
  readonly info: ShuffleInfo;
  /** One row per map, written by the maps' ranks. */
  readonly table: Uint8Array;
  readonly exposed: ExposedMemory;
  /** Own outputs, by `map:attempt`. */
  readonly outputs: Map<string, Output>;
  /** Packed keys of the tables of other ranks, as they came. */
  readonly peers: Map<number, Uint8Array>;
}

function outputKey(map: number, attempt: number): string {
  return `${map}:${attempt}`;
}

class RdmaShuffle implements ShuffleManager {
  readonly name = 'rdma';
  readonly blockList = 'published';
  readonly #services: ShuffleServices;
  readonly #shuffles = new Map<string, Known>();
  /** Keys of tables that came before this rank registered the shuffle. */
  readonly #early = new Map<string, Map<number, Uint8Array>>();
  readonly #over = new Set<string>();
  #stopped = false;

  constructor(services: ShuffleServices) {
    this.#services = services;
    services.worker.handle(HANDLER, ({ header, data }) => {
      const [rank, ...id] = new TextDecoder().decode(header).split(' ');
      this.#announced(id.join(' '), Number(rank), Uint8Array.from(data ?? []));
    });
  }

  register(info: ShuffleInfo): void {
    if (this.#shuffles.has(info.id)) return;
    this.#over.delete(info.id);
    const { worker, rank, size } = this.#services;
    const table = worker.context.alloc(Math.max(64, info.maps * rowLength(info.partitions, 1) * 8));
    const exposed = worker.expose(table);
    const known: Known = { info, table, exposed, outputs: new Map(), peers: this.#early.get(info.id) ?? new Map() };
    this.#early.delete(info.id);
    this.#shuffles.set(info.id, known);
    const header = new TextEncoder().encode(`${rank} ${info.id}`);
    const key = exposed.pack();
    for (let to = 0; to < size; to++) {
      if (to !== rank) void this.#tell(to, header, key);
    }
  }

  async #tell(to: number, header: Uint8Array, key: Uint8Array): Promise<void> {
    try {
      await (await this.#services.endpoint(to)).am(HANDLER, header, key);
    } catch {
      // A rank that is gone needs no rows.
    }
  }

  #announced(id: string, rank: number, key: Uint8Array): void {
    const known = this.#shuffles.get(id);
    if (known) {
      known.peers.set(rank, key);
      for (const [name, { row }] of known.outputs) void this.#publishTo(known, rank, Number(name.split(':')[0]), row);
    } else if (!this.#over.has(id)) {
      const early = this.#early.get(id) ?? new Map<number, Uint8Array>();
      this.#early.set(id, early.set(rank, key));
    }
  }

  writer(info: ShuffleInfo, map: number, attempt: number): ShuffleWriter {
    const runs: OwnRun[] = [];
    const { pool, counters } = this.#services;
    return {
      run: (bytes) => {
        const segment = pool.take(bytes);
        const offsets = new Float64Array(info.partitions + 1);
        runs.push({ segment, offsets, checksums: new Float64Array(info.partitions) });
        if (segment.kind === 'file') counters.bytesInFiles += bytes;
        return {
          bytes: segment.bytes,
          seal: (lengths) => {
            for (let p = 0; p < info.partitions; p++) offsets[p + 1] = offsets[p] + lengths[p];
          },
        };
      },
      commit: () => this.#commit(info, map, attempt, runs),
      abort: () => {
        for (const { segment } of runs) segment.release();
      },
    };
  }

  async #commit(info: ShuffleInfo, map: number, attempt: number, runs: readonly OwnRun[]): Promise<MapStatus> {
    const { rank, counters, checksums } = this.#services;
    const known = this.#shuffles.get(info.id);
    const lengths = new Float64Array(info.partitions);
    const rowRuns: RowRun[] = runs.map(({ segment, offsets, checksums: sums }) => {
      for (let p = 0; p < info.partitions; p++) {
        lengths[p] += offsets[p + 1] - offsets[p];
        if (checksums) sums[p] = checksum(segment.bytes.subarray(offsets[p], offsets[p + 1]));
      }
      counters.bytesWritten += offsets[info.partitions];
      return { key: segment.key, offsets, checksums: sums };
    });
    const row = encodeRow({ rank, attempt, runs: rowRuns }, info.partitions);
    if (!known) {
      for (const { segment } of runs) segment.release(); // the shuffle ended meanwhile
    } else {
      known.outputs.set(outputKey(map, attempt), { runs, row });
      if (runs.length === 1) {
        new Float64Array(known.table.buffer, known.table.byteOffset).set(row, map * rowLength(info.partitions, 1));
        await Promise.all([...known.peers.keys()].map((peer) => this.#publishTo(known, peer, map, row)));
      }
    }
    return { rank, attempt, lengths, descriptor: new Uint8Array(row.buffer) };
  }

  /** WRITEs a row into the table of a rank. */
  async #publishTo(known: Known, rank: number, map: number, row: Float64Array): Promise<void> {
    const key = known.peers.get(rank);
    const { partitions } = known.info;
    if (!key || row.length !== rowLength(partitions, 1)) return;
    try {
      const endpoint = await this.#ready(rank);
      await endpoint.unpack(key).put(map * rowLength(partitions, 1) * 8, new Uint8Array(row.buffer));
      await endpoint.flush();
    } catch {
      // It is gone, or has dropped the shuffle: whoever misses the row asks for it.
    }
  }

  async #ready(rank: number): Promise<Endpoint> {
    const endpoint = await this.#services.endpoint(rank);
    await endpoint.ready();
    return endpoint;
  }

  async *reader({ shuffle, partition, places, into, signal }: ReadRequest): AsyncIterable<FetchedBlock> {
    const { counters, windowBytes } = this.#services;
    const window = new Window(windowBytes);
    const found = await Promise.all(places.map((place) => this.#locate(shuffle, partition, place)));
    if (into) placeBlocks(found, into);
    yield* fetchInOrder(window, found.length, 64, counters, signal, (map) =>
      this.#fetch(shuffle, partition, found[map], map, window),
    );
  }

  /** Where the blocks of one map are: here, or in the memory of a peer. */
  async #locate(info: ShuffleInfo, partition: number, place: MapPlace): Promise<Located> {
    if (place.rank === this.#services.rank) {
      const own = this.#shuffles.get(info.id)?.outputs.get(outputKey(place.map, place.attempt));
      if (!own) throw new FetchFailed(info.id, [place.map], 'this rank has no such output');
      return {
        place,
        blocks: own.runs.map(({ segment, offsets, checksums }) => ({
          length: offsets[partition + 1] - offsets[partition],
          local: segment.bytes.subarray(offsets[partition], offsets[partition + 1]),
          sum: checksums[partition],
        })),
      };
    }
    const row = await this.#row(info, place);
    if (!row) throw new FetchFailed(info.id, [place.map], `rank ${place.rank} has no such output`);
    return {
      place,
      blocks: row.runs.map((run) => ({ length: run.offsets[partition + 1] - run.offsets[partition], remote: run })),
    };
  }

  /** The blocks of one map, one per run. */
  async #fetch(info: ShuffleInfo, partition: number, found: Located, turn: number, window: Window): Promise<FetchedBlock[]> {
    const { counters } = this.#services;
    const blocks: FetchedBlock[] = [];
    const { map } = found.place;
    try {
      for (const block of found.blocks) {
        if (block.length === 0) continue;
        if (block.local) {
          if (this.#services.checksums && checksum(block.local) !== block.sum) {
            throw new FetchFailed(info.id, [map], 'the block is damaged where it was written');
          }
          counters.bytesLocal += block.length;
          block.into?.set(block.local);
          blocks.push({ map, bytes: block.into ?? block.local, release: ignore });
        } else {
          blocks.push(await this.#read(info, found.place, block, partition, turn, window));
        }
      }
    } catch (error) {
      for (const block of blocks) block.release();
      throw error;
    }
    return blocks;
  }

  async #row(info: ShuffleInfo, place: MapPlace): Promise<BlockRow | undefined> {
    const { counters } = this.#services;
    const known = this.#shuffles.get(info.id);
    const length = rowLength(info.partitions, 1);
    if (known) {
      const at = known.table.byteOffset + place.map * length * 8;
      const row = decodeRow(new Float64Array(known.table.buffer, at, length), info.partitions, place.rank, place.attempt);
      if (row) {
        counters.tableHits++;
        return row;
      }
    }
    counters.tableMisses++;
    const status = await this.#services.status(info.id, place);
    if (!status) return undefined;
    const bytes = Uint8Array.from(status.descriptor);
    return decodeRow(new Float64Array(bytes.buffer), info.partitions, place.rank, place.attempt);
  }

  async #read(
    info: ShuffleInfo,
    place: MapPlace,
    { length, remote: run, into }: LocatedBlock,
    partition: number,
    turn: number,
    window: Window,
  ): Promise<FetchedBlock> {
    const { pool, counters, checksums } = this.#services;
    const { key, offsets, checksums: sums } = run as RowRun;
    await window.enter(length, turn);
    const segment = into ? undefined : pool.take(length, true);
    const bytes = into ?? (segment as Segment).bytes;
    const release = once(() => {
      segment?.release();
      window.leave(length);
    });
    try {
      const remote = (await this.#ready(place.rank)).unpack(key);
      for (let attempt = 0; attempt < 2; attempt++) {
        await remote.get(offsets[partition], bytes, { timeoutMs: READ_MS });
        counters.bytesRead += length;
        if (!checksums || checksum(bytes) === sums[partition]) {
          if (into) release(); // it is where it was wanted: nothing is in flight any more
          return { map: place.map, bytes, release };
        }
        counters.blocksRefetched++;
      }
    } catch (error) {
      release();
      throw new FetchFailed(info.id, [place.map], (error as Error).message);
    }
    release();
    throw new FetchFailed(info.id, [place.map], 'the block came damaged twice');
  }

  discard(shuffle: string, map: number, attempt: number): void {
    const outputs = this.#shuffles.get(shuffle)?.outputs;
    const output = outputs?.get(outputKey(map, attempt));
    for (const { segment } of output?.runs ?? []) segment.release();
    outputs?.delete(outputKey(map, attempt));
  }

  unregister(shuffle: string): void {
    this.#over.add(shuffle);
    this.#early.delete(shuffle);
    const known = this.#shuffles.get(shuffle);
    if (!known) return;
    this.#shuffles.delete(shuffle);
    for (const { runs } of known.outputs.values()) for (const { segment } of runs) segment.release();
    known.exposed.close();
    try {
      this.#services.worker.context.free(known.table);
    } catch {
      // A WRITE of a straggler is under way: the memory goes with the device.
    }
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const id of [...this.#shuffles.keys()]) this.unregister(id);
    // Ranks that are not so far yet may still announce tables here.
    if (!this.#services.worker.closed) this.#services.worker.handle(HANDLER, ignore);
  }
}

function ignore(): void {}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    act();
  };
}

export const rdma: ShuffleFactory = (services) => new RdmaShuffle(services);
