/** Edges of a graph that are shuffles: which task of the next vertex gets a row. */

import { PlanNode } from '../plan/node.js';
import { eachRow } from './pipeline.js';
import { hashTo, RowShuffle, shuffledRows } from './shuffled.js';

export type EdgeKind = 'hash' | 'broadcast' | 'gather' | 'rebalance';

const WORDS: Readonly<Record<EdgeKind, string>> = {
  hash: 'hash by key',
  broadcast: 'all rows to every task',
  gather: 'all rows to task 0',
  rebalance: 'in turn',
};

export function edgeNode(
  parent: PlanNode,
  kind: EdgeKind,
  tasks: number | undefined,
  key: ((row: unknown) => unknown) | undefined,
): PlanNode {
  const dependency = new RowShuffle(parent, WORDS[kind], tasks, (from, out, task, count) => {
    let next = task.partition;
    return eachRow(from, task.partition, task, node, (row) => {
      if (kind === 'broadcast') for (let p = 0; p < count; p++) out.add(p, row);
      else if (kind === 'gather') out.add(0, row);
      else if (kind === 'rebalance') out.add(next++ % count, row);
      else out.add(hashTo(key?.(row), count), row);
    });
  });
  const node: PlanNode = new PlanNode({
    name: kind,
    dependencies: [dependency],
    partitions: ({ defaultPartitions }) => dependency.decide(defaultPartitions),
    compute: (partition, task) => shuffledRows(task, dependency, partition),
  });
  return node;
}
