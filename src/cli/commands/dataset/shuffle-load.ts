/** Nothing but a shuffle: map tasks fill runs, reduce tasks read their partitions. What the two managers differ in is all there is to measure. */

import { DatasetError } from '../../../dataset/errors.js';
import type { Session } from '../../../dataset/index.js';
import { PlanNode, type ShuffleDependency } from '../../../dataset/plan/node.js';

const RUN_BYTES = 32 << 20;
const PARTITIONS = 16;

/** Moves so many bytes from map to reduce tasks; returns how many arrived. */
export async function shuffleBytes(data: Session, bytes: number): Promise<number> {
  const maps = Math.max(data.size, Math.ceil(bytes / RUN_BYTES));
  const each = Math.floor(bytes / maps / PARTITIONS / 8) * 8;
  const source = new PlanNode({
    name: 'load',
    dependencies: [],
    partitions: maps,
    async *compute(partition) {
      yield [partition];
    },
  });
  const dependency: ShuffleDependency = {
    kind: 'shuffle',
    parent: source,
    partitions: PARTITIONS,
    words: 'equal parts',
    async write(writer, { partition }) {
      const run = writer.run(each * PARTITIONS);
      run.bytes.fill(partition & 0xff);
      run.seal(new Float64Array(PARTITIONS).fill(each));
    },
  };
  const sink = new PlanNode({
    name: 'sink',
    dependencies: [dependency],
    partitions: PARTITIONS,
    async *compute(partition, task) {
      let got = 0;
      for await (const block of task.services.fetch(task, dependency, partition)) {
        if (block.bytes[0] !== (block.map & 0xff)) throw new DatasetError('DATASET_CORRUPT', 'a block of another map came');
        got += block.bytes.length;
        block.release();
      }
      yield [got];
    },
  });
  const parts = await data.engine.run(sink, async (batches) => {
    let got = 0;
    for await (const batch of batches) got += (batch as readonly number[])[0];
    return got;
  });
  return parts.reduce((a, b) => a + b, 0);
}
