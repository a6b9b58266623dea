/** Ranks for one case of the shuffle suite: each with its own context, memory bounds and manager, all in this process. */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  MapPlace,
  MapStatus,
  ShuffleFactory,
  ShuffleInfo,
  ShuffleManager,
  ShuffleServices,
} from '../../src/dataset/index.js';
import { Budget } from '../../src/dataset/memory/budget.js';
import { SegmentPool } from '../../src/dataset/memory/segment-pool.js';
import { SpillDirectory } from '../../src/dataset/memory/spill-directory.js';
import { newCounters } from '../../src/dataset/shuffle/manager.js';
import type { Context, Worker } from '../../src/messaging/index.js';

/** What the shuffle suite is run on: a manager, and the provider that its ranks talk over. */
export interface ShuffleSuite {
  readonly name: string;
  readonly manager: ShuffleFactory;
  /** Opens a context of the provider that the ranks talk over. */
  open(rank: number): Promise<Context>;
  /** Tests that cannot hold, with the reason. */
  readonly skip?: readonly { readonly reason: string; readonly tests: readonly string[] }[];
}

export interface StageOptions {
  readonly ranks: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly windowBytes: number;
}

/** One rank. */
export interface Seat {
  readonly rank: number;
  readonly manager: ShuffleManager;
  readonly services: ShuffleServices;
  /** Closes its context, as if it had died. */
  die(): Promise<void>;
}

export class ShuffleStage {
  readonly seats: Seat[] = [];
  readonly #contexts: Context[] = [];
  readonly #directory = mkdtempSync(join(tmpdir(), 'verbena-shuffle-'));
  readonly #statuses = new Map<string, MapStatus>();

  static async open(suite: ShuffleSuite, options: StageOptions): Promise<ShuffleStage> {
    const stage = new ShuffleStage();
    const contexts: Context[] = [];
    for (let rank = 0; rank < options.ranks; rank++) contexts.push(await suite.open(rank));
    const workers = await Promise.all(contexts.map((context) => context.createWorker()));
    stage.#contexts.push(...contexts);
    for (let rank = 0; rank < options.ranks; rank++) {
      const worker = workers[rank];
      const memory = new Budget(options.memoryBytes);
      const disk = new SpillDirectory(new Budget(options.diskBytes), stage.#directory);
      const endpoints = new Map<number, ReturnType<typeof worker.connect>>();
      const services: ShuffleServices = {
        rank,
        size: options.ranks,
        worker,
        async endpoint(to) {
          const endpoint = endpoints.get(to) ?? worker.connect(workers[to].address);
          endpoints.set(to, endpoint);
          return endpoint;
        },
        pool: new SegmentPool(worker, memory, disk),
        memory,
        disk,
        windowBytes: options.windowBytes,
        checksums: true,
        status: async (shuffle, place) => stage.status(shuffle, place),
        counters: newCounters(),
        address: '127.0.0.1',
      };
      const manager = await suite.manager(services);
      stage.seats.push({ rank, manager, services, die: () => leave(worker, contexts[rank]) });
    }
    // Connected before anything is said, so that no case ends in the middle of connecting.
    for (const { rank, services } of stage.seats) {
      for (let to = 0; to < options.ranks; to++) if (to !== rank) await (await services.endpoint(to)).ready();
    }
    return stage;
  }

  /** Files that are left in the spill directory. */
  get files(): string[] {
    return readdirSync(this.#directory);
  }

  note(shuffle: string, map: number, status: MapStatus): MapPlace {
    this.#statuses.set(`${shuffle} ${map} ${status.rank} ${status.attempt}`, status);
    return { map, rank: status.rank, attempt: status.attempt };
  }

  status(shuffle: string, { map, rank, attempt }: MapPlace): MapStatus | undefined {
    return this.#statuses.get(`${shuffle} ${map} ${rank} ${attempt}`);
  }

  register(info: ShuffleInfo): void {
    for (const { manager } of this.seats) manager.register(info);
  }

  async close(): Promise<void> {
    for (const { manager, services } of this.seats) {
      await manager.stop();
      services.pool.close();
    }
    for (const context of this.#contexts) await context.close();
    rmSync(this.#directory, { recursive: true });
  }
}

/** Closes a worker, whatever its peers say to that, and its context. */
async function leave(worker: Worker, context: Context): Promise<void> {
  try {
    await worker.close({ timeoutMs: 1000 });
  } catch {
    // A peer did not answer.
  }
  await context.close();
}
