/** Blocks that are damaged after they were written, and a disk that is full: the right answer or a clear error, never a wrong answer. */

import assert from 'node:assert/strict';
import { type Run, rdma, type Session, type ShuffleFactory } from '../../../src/dataset/index.js';
import { errorOf, say } from './say.js';

/** The rdma shuffle, but the first attempt of every third map has a bit turned over behind its back. */
export const damaging: ShuffleFactory = async (services) => {
  const inner = await rdma(services);
  return {
    name: 'damaging',
    blockList: inner.blockList,
    register: (info) => inner.register(info),
    writer(info, map, attempt) {
      const writer = inner.writer(info, map, attempt);
      const runs: Run[] = [];
      return {
        run(bytes) {
          const run = writer.run(bytes);
          runs.push(run);
          return run;
        },
        async commit() {
          const status = await writer.commit();
          if (attempt === 0 && map % 3 === 1) for (const { bytes } of runs) if (bytes.length > 0) bytes[bytes.length >> 1] ^= 16;
          return status;
        },
        abort: () => writer.abort(),
      };
    },
    reader: (request) => inner.reader(request),
    discard: (shuffle, map, attempt) => inner.discard(shuffle, map, attempt),
    unregister: (shuffle) => inner.unregister(shuffle),
    stop: () => inner.stop(),
  };
};

export async function damageScenario(data: Session): Promise<void> {
  const n = 20_000;
  const totals = await data
    .range(0, n, 1, 6)
    .map((i): [number, number] => [i % 100, i])
    .reduceByKey((a, b) => a + b)
    .collect();
  assert.equal(
    totals.reduce((sum, [, total]) => sum + total, 0),
    (n * (n - 1)) / 2,
  );
  const recomputed = data.lastReport?.stages[0].recomputed ?? 0;
  assert.ok(recomputed >= 2, `maps 1 and 4 were computed again, not ${recomputed}`);

  const full = await errorOf(() =>
    data
      .range(0, 60_000, 1, 4)
      .map((i): [string, string] => [`${(i * 7919) % 60_000}`, 'some text that takes room '.repeat(16)])
      .sortByKey({ partitions: 2 })
      .count(),
  );
  assert.equal(full.code, 'DATASET_DISK_FULL', full.message);
  assert.match(full.message, /this rank may keep 1048576 bytes on disk/);
  assert.equal(await data.range(100).count(), 100, 'and the session goes on');
  say(data, 'passed', { recomputed, full: full.message });
}
