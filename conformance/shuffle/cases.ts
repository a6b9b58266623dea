/** What every shuffle manager promises. */

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { DatasetError, FetchFailed, type MapPlace, type ShuffleInfo } from '../../src/dataset/index.js';
import type { Seat, ShuffleStage, StageOptions } from './stage.js';

export interface Case {
  readonly options?: Partial<StageOptions>;
  run(stage: ShuffleStage): Promise<void>;
}

/** The byte at a place of a block, so that any block can be checked without having been kept. */
function byteAt(map: number, partition: number, run: number, at: number): number {
  return (map * 131 + partition * 31 + run * 7 + at) & 0xff;
}

/** Writes one output: lengths[run][partition] bytes each. */
async function write(
  stage: ShuffleStage,
  seat: Seat,
  info: ShuffleInfo,
  map: number,
  attempt: number,
  runs: readonly (readonly number[])[],
): Promise<MapPlace> {
  const writer = seat.manager.writer(info, map, attempt);
  for (const [r, lengths] of runs.entries()) {
    const run = writer.run(lengths.reduce((a, b) => a + b, 0));
    let base = 0;
    for (const [p, length] of lengths.entries()) {
      for (let i = 0; i < length; i++) run.bytes[base + i] = byteAt(map, p, r, i);
      base += length;
    }
    run.seal(lengths);
  }
  return stage.note(info.id, map, await writer.commit());
}

/** Reads a partition and checks every byte; returns the maps of the blocks, in the order they came, and the bytes in all. */
async function read(
  seat: Seat,
  info: ShuffleInfo,
  partition: number,
  places: readonly MapPlace[],
  into?: Uint8Array,
): Promise<{ maps: number[]; bytes: number }> {
  const maps: number[] = [];
  const runs = new Map<number, number>();
  let bytes = 0;
  for await (const block of seat.manager.reader({ shuffle: info, partition, places, ...(into ? { into } : {}) })) {
    const run = runs.get(block.map) ?? 0;
    runs.set(block.map, run + 1);
    for (let i = 0; i < block.bytes.length; i++) {
      if (block.bytes[i] !== byteAt(block.map, partition, run, i))
        assert.fail(`map ${block.map}, run ${run}, byte ${i} is another one`);
    }
    maps.push(block.map);
    bytes += block.bytes.length;
    block.release();
  }
  return { maps, bytes };
}

const SMALL: ShuffleInfo = { id: 'suite/0', maps: 4, partitions: 3 };

/** Four outputs, by all ranks in turn. */
async function writeAll(stage: ShuffleStage, info = SMALL, scale = 1000): Promise<MapPlace[]> {
  stage.register(info);
  const places: MapPlace[] = [];
  for (let map = 0; map < info.maps; map++) {
    const lengths = Array.from({ length: info.partitions }, (_, p) => scale * (map + 1) + p * 8);
    places.push(await write(stage, stage.seats[map % stage.seats.length], info, map, 0, [lengths]));
  }
  return places;
}

export const CASES: Readonly<Record<string, Case>> = {
  'every block arrives as it was written, in the order of the maps': {
    async run(stage) {
      const places = await writeAll(stage);
      for (const seat of stage.seats) {
        for (let p = 0; p < SMALL.partitions; p++) {
          assert.deepEqual(await read(seat, SMALL, p, places), { maps: [0, 1, 2, 3], bytes: 10_000 + 4 * p * 8 });
        }
      }
      assert.deepEqual(
        (await read(stage.seats[0], SMALL, 1, [...places].reverse())).maps,
        [3, 2, 1, 0],
        'or in the order that is asked for',
      );
    },
  },
  'the status says how long each partition is, and where': {
    async run(stage) {
      const places = await writeAll(stage);
      for (const place of places) {
        const status = stage.status(SMALL.id, place);
        assert.equal(status?.rank, place.map % stage.seats.length);
        assert.deepEqual(
          [...(status?.lengths ?? [])],
          [0, 8, 16].map((more) => 1000 * (place.map + 1) + more),
        );
      }
    },
  },
  'empty partitions and empty outputs give no blocks': {
    async run(stage) {
      stage.register(SMALL);
      const places = [
        await write(stage, stage.seats[0], SMALL, 0, 0, [[0, 0, 0]]),
        await write(stage, stage.seats[1], SMALL, 1, 0, [[0, 16, 0]]),
      ];
      assert.deepEqual((await read(stage.seats[0], SMALL, 0, places)).maps, []);
      assert.deepEqual((await read(stage.seats[0], SMALL, 1, places)).maps, [1]);
      assert.deepEqual((await read(stage.seats[0], SMALL, 1, [])).maps, []);
    },
  },
  'the runs of one map come one behind the other': {
    async run(stage) {
      stage.register(SMALL);
      const place = await write(stage, stage.seats[0], SMALL, 2, 0, [
        [800, 8, 0],
        [80, 24, 24],
        [8, 16, 32],
      ]);
      for (const seat of stage.seats) {
        assert.deepEqual(await read(seat, SMALL, 0, [place]), { maps: [2, 2, 2], bytes: 888 });
        assert.equal((await read(seat, SMALL, 1, [place])).bytes, 48);
      }
    },
  },
  'blocks go where the reader wants them, one behind the other': {
    async run(stage) {
      const places = await writeAll(stage);
      for (const seat of stage.seats) {
        const into = seat.services.pool.take(10_064);
        assert.equal((await read(seat, SMALL, 2, places, into.bytes)).bytes, 10_064);
        let at = 0;
        for (const { map } of places) {
          const length = 1000 * (map + 1) + 16;
          for (let i = 0; i < length; i++) assert.equal(into.bytes[at + i], byteAt(map, 2, 0, i));
          at += length;
        }
        into.release();
      }
    },
  },
  'bytes in flight are bounded, and a block larger than the bound comes all the same': {
    options: { windowBytes: 64 << 10 },
    async run(stage) {
      const info: ShuffleInfo = { id: 'suite/window', maps: 12, partitions: 1 };
      stage.register(info);
      const places: MapPlace[] = [];
      for (let map = 0; map < info.maps; map++)
        places.push(await write(stage, stage.seats[1], info, map, 0, [[map === 5 ? 200_000 : 24_000]]));
      assert.equal((await read(stage.seats[0], info, 0, places)).bytes, 11 * 24_000 + 200_000);
      const { mostInFlight } = stage.seats[0].services.counters;
      assert.ok(mostInFlight <= (64 << 10) + 200_000, `${mostInFlight} bytes were in flight`);
    },
  },
  'the output of one attempt is not taken for that of another': {
    async run(stage) {
      stage.register(SMALL);
      const first = await write(stage, stage.seats[1], SMALL, 0, 0, [[8, 8, 8]]);
      const second = await write(stage, stage.seats[1], SMALL, 0, 3, [[16, 16, 16]]);
      assert.equal((await read(stage.seats[0], SMALL, 0, [second])).bytes, 16);
      assert.equal((await read(stage.seats[0], SMALL, 0, [first])).bytes, 8);
      await assert.rejects(read(stage.seats[0], SMALL, 0, [{ map: 0, rank: 1, attempt: 2 }]), FetchFailed);
      await assert.rejects(
        read(stage.seats[0], SMALL, 0, [{ map: 3, rank: 0, attempt: 0 }]),
        (error) => error instanceof FetchFailed && error.maps[0] === 3,
      );
    },
  },
  'blocks of a rank that is gone are named': {
    async run(stage) {
      const places = await writeAll(stage);
      await stage.seats[1].manager.stop();
      await stage.seats[1].die();
      await assert.rejects(
        read(stage.seats[0], SMALL, 0, places),
        (error) => error instanceof FetchFailed && error.shuffle === SMALL.id && error.maps[0] === 1,
      );
      assert.equal((await read(stage.seats[0], SMALL, 0, [places[0], places[2]])).bytes, 4000, 'the others are still there');
    },
  },
  'a damaged block is fetched again, and then named': {
    async run(stage) {
      stage.register(SMALL);
      const writer = stage.seats[1].manager.writer(SMALL, 1, 0);
      const run = writer.run(48);
      run.bytes.fill(1);
      run.seal([16, 16, 16]);
      const place = stage.note(SMALL.id, 1, await writer.commit());
      run.bytes[20] ^= 4;
      await assert.rejects(read(stage.seats[0], SMALL, 1, [place]), /damaged twice/);
      assert.equal(stage.seats[0].services.counters.blocksRefetched, 2);
    },
  },
  'what does not fit in memory goes to disk and can be read like everything else': {
    options: { memoryBytes: 1 << 20 },
    async run(stage) {
      const info: ShuffleInfo = { id: 'suite/disk', maps: 6, partitions: 2 };
      stage.register(info);
      const places: MapPlace[] = [];
      for (let map = 0; map < info.maps; map++) places.push(await write(stage, stage.seats[1], info, map, 0, [[400_000, 8]]));
      assert.ok(stage.seats[1].services.counters.bytesInFiles > 0, 'some of it is in files');
      assert.equal((await read(stage.seats[0], info, 0, places)).bytes, 6 * 400_000);
      assert.deepEqual(stage.files, [], 'files have no names');
    },
  },
  'a full disk is an error that says so': {
    options: { memoryBytes: 1 << 20, diskBytes: 1 << 20 },
    async run(stage) {
      const info: ShuffleInfo = { id: 'suite/full', maps: 20, partitions: 1 };
      stage.register(info);
      await assert.rejects(
        async () => {
          for (let map = 0; map < info.maps; map++) await write(stage, stage.seats[0], info, map, 0, [[400_000]]);
        },
        (error) => DatasetError.is(error) && error.code === 'DATASET_DISK_FULL',
      );
    },
  },
  'what was aborted, discarded or unregistered is gone, and its memory is used again': {
    options: { memoryBytes: 4 << 20, diskBytes: 8 << 20 },
    async run(stage) {
      const [, seat] = stage.seats;
      for (let round = 0; round < 40; round++) {
        const info: ShuffleInfo = { id: `suite/round-${round}`, maps: 2, partitions: 1 };
        stage.register(info);
        const aborted = seat.manager.writer(info, 0, 0);
        aborted.run(500_000);
        aborted.abort();
        const place = await write(stage, seat, info, 0, 1, [[500_000]]);
        seat.manager.discard(info.id, 0, 1);
        await assert.rejects(read(seat, info, 0, [place]), FetchFailed);
        await write(stage, seat, info, 1, 0, [[500_000]]);
        for (const { manager } of stage.seats) manager.unregister(info.id);
      }
      assert.ok(seat.services.memory.used <= 4 << 20);
    },
  },
  'a reader that stops early lets go of what it has': {
    async run(stage) {
      const places = await writeAll(stage, SMALL, 100_000);
      const before = descriptors();
      for (let round = 0; round < 20; round++) {
        for await (const block of stage.seats[0].manager.reader({ shuffle: SMALL, partition: 0, places })) {
          block.release();
          break;
        }
      }
      assert.equal((await read(stage.seats[0], SMALL, 0, places)).bytes, 1_000_000);
      assert.ok(descriptors() <= before + 16, 'no descriptors are left behind');
    },
  },
  'several readers at once do not disturb each other': {
    async run(stage) {
      const places = await writeAll(stage, SMALL, 50_000);
      const all = await Promise.all(stage.seats.flatMap((seat) => [0, 1, 2].map((p) => read(seat, SMALL, p, places))));
      for (const [i, { bytes }] of all.entries()) assert.equal(bytes, 500_000 + 4 * (i % 3) * 8);
    },
  },
};

function descriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
