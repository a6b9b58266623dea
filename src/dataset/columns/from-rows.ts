/** Rows to columns. */

import { DatasetError } from '../errors.js';
import { oneToOne, PlanNode } from '../plan/node.js';
import { ColumnBatch } from './batch.js';
import { arrayOf, type Schema } from './schema.js';

const ROWS = 64 << 10;

export function columnsOfRowsNode(parent: PlanNode, schema: Schema): PlanNode {
  const entries = Object.entries(schema);
  const make = (rows: readonly Record<string, unknown>[]): ColumnBatch => {
    const arrays = entries.map(([name, type]) => {
      const out = arrayOf(type, rows.length);
      const kind = type === 'i64' ? 'bigint' : 'number';
      for (let i = 0; i < rows.length; i++) {
        const value = rows[i][name];
        if (typeof value !== kind) {
          throw new DatasetError(
            'DATASET_SCHEMA',
            `column ${name} is ${type}, and a row has ${typeof value} there: ${JSON.stringify(rows[i])?.slice(0, 200)}`,
          );
        }
        (out as Float64Array)[i] = value as number;
      }
      return out;
    });
    return new ColumnBatch(schema, arrays, rows.length);
  };
  return new PlanNode({
    name: 'columns',
    words: entries.map(([name, type]) => `${name}: ${type}`).join(', '),
    dependencies: [oneToOne(parent)],
    partitions: () => parent.partitions,
    async *compute(partition, task) {
      let pending: Record<string, unknown>[] = [];
      for await (const batch of parent.compute(partition, task)) {
        for (const row of batch as readonly Record<string, unknown>[]) pending.push(row);
        if (pending.length < ROWS) continue;
        yield make(pending);
        pending = [];
        await task.breathe();
      }
      if (pending.length > 0) yield make(pending);
    },
  });
}
