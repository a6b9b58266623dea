/**
 * A shuffle manager: how the output of map tasks gets to the tasks that want a partition of it.
 *
 * A map task opens a writer and asks it for memory, once or several times: each time a *run*, the bytes of all partitions one behind the other. `commit`
 * returns the status of the output: how long each partition is and, in words that only this manager reads, where it lies. A reader is given a partition and the
 * places of the map outputs it is made of, and yields their blocks in the order of the maps, so that the same inputs always give the same result.
 *
 * ```
 *   map task                        manager                            reduce task
 *     writer(s, m) ───────────────>   run(bytes) ── memory; filled, then seal(lengths)
 *     commit() ───────────────────>   seals, publishes, MapStatus        (the scheduler keeps it)
 *                                     reader(s, p, places) <─────────    blocks, in map order, checked
 * ```
 *
 * What a manager must keep: a block is the bytes that were committed or there is an error (checksums); what it cannot get it names in FetchFailed, and the
 * scheduler computes it again; bytes in flight are bounded; after `unregister` and `stop` nothing is left. conformance/shuffle.ts checks all of it.
 */

import type { Endpoint, Worker } from '../../messaging/index.js';
import type { Budget } from '../memory/budget.js';
import type { SegmentPool } from '../memory/segment-pool.js';
import type { SpillDirectory } from '../memory/spill-directory.js';

/** A shuffle: so many map tasks, so many partitions. */
export interface ShuffleInfo {
  /** Unique among all shuffles of the world; the same on every rank. */
  readonly id: string;
  readonly maps: number;
  readonly partitions: number;
}

/** Where the output of a map task is, and how large. */
export interface MapStatus {
  readonly rank: number;
  /** Tells the attempts of one map apart: the output of another attempt is another output. */
  readonly attempt: number;
  /** Bytes of each partition. */
  readonly lengths: Float64Array;
  /** What the manager's reader needs. Opaque to everyone else. */
  readonly descriptor: Uint8Array;
}

/** Which attempt of a map to read, and where it ran. */
export interface MapPlace {
  readonly map: number;
  readonly rank: number;
  readonly attempt: number;
}

/** Memory for one run. */
export interface Run {
  readonly bytes: Uint8Array;
  /** It is filled: lengths[p] bytes of each partition, one behind the other. */
  seal(lengths: ArrayLike<number>): void;
}

/** Takes the output of one map task. */
export interface ShuffleWriter {
  /** Memory for another run of so many bytes in all. @throws DATASET_DISK_FULL when neither memory nor disk may hold it. */
  run(bytes: number): Run;
  /** Ends the output: from now on readers find it. Every run is sealed. */
  commit(): Promise<MapStatus>;
  /** Drops what was written. */
  abort(): void;
}

/** Bytes of one partition of one run of one map. */
export interface FetchedBlock {
  readonly map: number;
  /** Valid until `release`. */
  readonly bytes: Uint8Array;
  release(): void;
}

/** Blocks of one partition that a reduce task asks for. */
export interface ReadRequest {
  readonly shuffle: ShuffleInfo;
  readonly partition: number;
  /** In the order in which blocks are wanted. */
  readonly places: readonly MapPlace[];
  /** Put the blocks here, one behind the other, and not into memory of the manager's. Long enough for all of them. */
  readonly into?: Uint8Array;
  readonly signal?: AbortSignal;
}

/** Moves map output to the tasks that read it. One per rank; conformance/shuffle holds all of them to this contract. */
export interface ShuffleManager {
  readonly name: string;
  /** How readers learn where blocks are: 'broadcast' asks the scheduler to send the block list to all ranks before they read. */
  readonly blockList: 'broadcast' | 'published';
  /** A shuffle begins. Every rank calls it, before any writer or reader. */
  register(shuffle: ShuffleInfo): void;
  writer(shuffle: ShuffleInfo, map: number, attempt: number): ShuffleWriter;
  /** @throws FetchFailed for blocks that cannot be had. */
  reader(request: ReadRequest): AsyncIterable<FetchedBlock>;
  /** The output of one attempt is not wanted: another one was first. */
  discard(shuffle: string, map: number, attempt: number): void;
  /** The shuffle is over: everything of it goes. */
  unregister(shuffle: string): void;
  stop(): Promise<void>;
}

/** What a manager stands on. */
export interface ShuffleServices {
  readonly rank: number;
  readonly size: number;
  readonly worker: Worker;
  /** The way to a rank. */
  endpoint(rank: number): Promise<Endpoint>;
  readonly pool: SegmentPool;
  readonly memory: Budget;
  readonly disk: SpillDirectory;
  /** Bytes that one reader may have in flight. */
  readonly windowBytes: number;
  /** Checks blocks against their checksums. */
  readonly checksums: boolean;
  /** The status of a map output, from the block list if there is one, else by asking the driver. undefined: there is none at that place. */
  status(shuffle: string, place: MapPlace): Promise<MapStatus | undefined>;
  /** Counts for explain() and the tests. */
  readonly counters: ShuffleCounters;
  /** The address at which peers can connect to this rank by TCP. */
  readonly address: string;
}

/** What a manager has moved since it was made, in bytes and blocks. */
export interface ShuffleCounters {
  bytesWritten: number;
  bytesRead: number;
  bytesLocal: number;
  blocksRead: number;
  blocksRefetched: number;
  bytesInFiles: number;
  mostInFlight: number;
  /** READs that found their place in the published table, and those that had to ask. */
  tableHits: number;
  tableMisses: number;
}

/** Counters that stand at 0. */
export function newCounters(): ShuffleCounters {
  return {
    bytesWritten: 0,
    bytesRead: 0,
    bytesLocal: 0,
    blocksRead: 0,
    blocksRefetched: 0,
    bytesInFiles: 0,
    mostInFlight: 0,
    tableHits: 0,
    tableMisses: 0,
  };
}

/** Makes a manager for this rank. What `openDatasets({ shuffle })` takes beside a name. */
export type ShuffleFactory = (services: ShuffleServices) => ShuffleManager | Promise<ShuffleManager>;
