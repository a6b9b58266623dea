/** Sources that are in the program itself: values and ranges. Every rank has them, so any rank may compute any partition. */

import { PlanNode } from '../plan/node.js';

export function valuesNode(values: readonly unknown[], partitions: number): PlanNode {
  return new PlanNode({
    name: 'parallelize',
    words: `${values.length} values`,
    dependencies: [],
    partitions,
    async *compute(partition, task) {
      const from = Math.floor((partition * values.length) / partitions);
      const to = Math.floor(((partition + 1) * values.length) / partitions);
      for (let at = from; at < to; at += task.batchRows) {
        task.position = `value ${at}`;
        yield values.slice(at, Math.min(to, at + task.batchRows));
      }
    },
  });
}

export function rangeNode(start: number, end: number, step: number, partitions: number): PlanNode {
  const count = Math.max(0, Math.ceil((end - start) / step));
  return new PlanNode({
    name: 'range',
    words: `${count} numbers`,
    dependencies: [],
    partitions,
    async *compute(partition, task) {
      const from = Math.floor((partition * count) / partitions);
      const to = Math.floor(((partition + 1) * count) / partitions);
      for (let at = from; at < to; at += task.batchRows) {
        task.position = `number ${start + at * step}`;
        const length = Math.min(task.batchRows, to - at);
        const batch = new Array<number>(length);
        for (let i = 0; i < length; i++) batch[i] = start + (at + i) * step;
        yield batch;
        await task.breathe();
      }
    },
  });
}
